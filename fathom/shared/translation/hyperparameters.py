"""The hyperparameters that all translation has."""

from dataclasses import dataclass

from fathom.options import Hyperparameters, RunOptions, hyperparameter, option


@dataclass(frozen=True)
class TranslationHyperparameters(Hyperparameters):
    """The languages."""

    source_language: str = hyperparameter("en", "file extension")
    target_language: str = hyperparameter("de", "file extension; the papers' are de and fr")


@dataclass(frozen=True)
class TranslationOptions(RunOptions):
    """How the forward-only twin decodes."""

    decoding: str = option(
        "free",
        "forward-only: feed the decoder its own words, or the test text's (teacher-forced)",
        choices=("free", "teacher-forced"),
        trains=False,
    )
