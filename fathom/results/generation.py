"""The speed of inference that generates sequences token by token, its two phases apart."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from pydantic import Field
from typing_extensions import Self

from fathom.results.base import Count, NotNegative, PositiveCount, Record, absent


class PhaseTimes(NamedTuple):
    """The times of one step."""

    prefill: float | None  # seconds of reading what is given; None: this phase did not run
    decode: float | None  # seconds of the loop over new tokens; None: this phase did not run
    given: int  # tokens of each sequence that are read at once
    decoded: int  # iterations of the loop
    sequences: int  # generated at once


class Generation(Record):
    """Generation of sequences: prefill reads what is given at once, decode adds token by token.

    Medians over the steps in the statistics.
    """

    sequences: PositiveCount = Field(
        description="sequences generated at once; the rounded mean, if steps differ"
    )
    prompt_tokens: NotNegative = Field(
        description="tokens of each prompt, or of each source sentence with its padding"
    )
    new_tokens: NotNegative = Field(description="tokens generated for each")
    prefill_tokens_per_second: NotNegative | None = absent(
        "tokens of all prompts read per second; `null` if this phase did not run"
    )
    seconds_to_first_token: NotNegative | None = absent(
        "from the start of the prefill to the first token, in seconds"
    )
    decode_tokens_per_second: NotNegative | None = absent(
        "tokens of all sequences generated per second, once the prompts were read; "
        "`null` if this phase did not run"
    )
    seconds_per_output_token: NotNegative | None = absent(
        "from one token of a sequence to the next, in seconds"
    )
    tokens_per_pass: NotNegative | None = absent(
        "new tokens of a sequence for each pass of the network in the last step, where "
        "a draft proposes several; otherwise `null`"
    )
    cache_bytes: Count = Field(
        description="what is kept of earlier tokens for all sequences, in bytes: keys and values, "
        "with room for the tokens to come"
    )

    @classmethod
    def of(
        cls, runs: Sequence[PhaseTimes], cache_bytes: int, first_by_prefill: bool = True
    ) -> Self:
        """Returns the speed of some steps, at least one; ``cache_bytes`` are of all sequences.

        The prefill gives the first of the new tokens, unless ``first_by_prefill`` is false: then
        the loop does, as in an encoder and a decoder.
        """
        prefills = [run.sequences * run.given / run.prefill for run in runs if run.prefill]
        decodes = [
            (run.decode / run.decoded, run.sequences) for run in runs if run.decode and run.decoded
        ]
        firsts = [
            run.prefill + (0 if first_by_prefill else (run.decode or 0) / max(1, run.decoded))
            for run in runs
            if run.prefill
        ]
        return cls(
            sequences=round(np.mean([run.sequences for run in runs])),
            prompt_tokens=float(np.mean([run.given for run in runs])),
            new_tokens=float(np.mean([run.decoded + first_by_prefill for run in runs])),
            prefill_tokens_per_second=_median(prefills),
            seconds_to_first_token=_median(firsts),
            decode_tokens_per_second=_median([sequences / s for s, sequences in decodes]),
            seconds_per_output_token=_median([s for s, _ in decodes]),
            cache_bytes=cache_bytes,
        )

    def summary(self) -> list[str]:
        """Returns a line for each phase that ran."""
        lines = []
        if self.prefill_tokens_per_second is not None and self.seconds_to_first_token is not None:
            lines.append(
                f"prefill: {self.prefill_tokens_per_second:,.0f} tokens/s, "
                f"{1e3 * self.seconds_to_first_token:,.3g} ms to the first token"
            )
        if self.decode_tokens_per_second is not None and self.seconds_per_output_token is not None:
            lines.append(
                f"decode: {self.decode_tokens_per_second:,.0f} tokens/s, "
                f"{1e3 * self.seconds_per_output_token:,.3g} ms per output token; "
                f"cache {self.cache_bytes / 2**20:,.3g} MiB"
            )
        if self.tokens_per_pass is not None:
            lines.append(f"draft: {self.tokens_per_pass:.2f} tokens for each pass of the network")
        return lines


def _median(values: list[float]) -> float | None:
    return float(np.median(values)) if values else None
