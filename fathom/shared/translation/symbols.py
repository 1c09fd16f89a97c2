"""The symbols with which every vocabulary begins."""

SPECIAL_SYMBOLS = ("<pad>", "<go>", "<eos>", "<unk>")
PAD, GO, EOS, UNK = range(len(SPECIAL_SYMBOLS))
