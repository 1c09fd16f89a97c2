"""Multi30k (Elliott et al. 2016): captions of 31,014 photographs in English and German."""

from fathom.shared.translation.parallel import ParallelTexts


class Multi30k(ParallelTexts):
    """The texts under their original names, which many other texts use too."""

    name = "multi30k"
    title = "Multi30k parallel text"
    licence = "text: cite the paper; images: non-commercial"
    home_page = "https://github.com/multi30k/dataset"
    layout = "{train,val,test_2016_flickr}.{en,de}, each plain, tokenized (.tok.en) or with .gz"
    nested = "wmt/multi30k"

    TRAINING = ("train",)
    SYNTHETIC = ("train", "val", "test_2016_flickr")
