"""The parallel texts of the WMT-15 translation task (Bojar et al. 2015)."""

from fathom.shared.translation.parallel import ParallelTexts


class Wmt(ParallelTexts):
    """The texts under their original names."""

    name = "wmt"
    title = "WMT-15 parallel text"
    licence = "by corpus; free for research"
    home_page = "https://www.statmt.org/wmt15/translation-task.html"
    layout = (
        "giga-fren.release2.fixed.{en,fr} or {europarl-v7,commoncrawl,news-commentary-v10}.de-en."
        "{en,de}, and newstest2013.*, newstest2015.*, each plain or with .gz"
    )
    synthesis = 2

    TRAINING = (
        "giga-fren.release2.fixed",
        "giga-fren.release2",
        "europarl-v7.{pair}",
        "commoncrawl.{pair}",
        "news-commentary-v10.{pair}",
    )
    SYNTHETIC = ("europarl-v7.de-en", "newstest2013", "newstest2015")
