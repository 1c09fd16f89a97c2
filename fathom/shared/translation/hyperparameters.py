"""The hyperparameters that all translation has."""

from dataclasses import dataclass

from fathom.options import Hyperparameters, hyperparameter


@dataclass(frozen=True)
class TranslationHyperparameters(Hyperparameters):
    """The languages, and how the forward-only twin decodes."""

    decoding: str = hyperparameter(
        "free",
        "forward-only: feed the decoder its own words, or the test text's (teacher-forced)",
        choices=("free", "teacher-forced"),
    )
    source_language: str = hyperparameter("en", "file extension")
    target_language: str = hyperparameter("de", "file extension; the papers' are de and fr")
