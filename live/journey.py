"""Time travel: what is found at one instant that a clean has left readable."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Journey:
    """What was found at one instant: how many rows differ from the record of then, or why nothing could be read.

    `overtaken` is the instant of the compaction that was planned while this write of Hudi's was in flight: its log
    files belong to file slices that begin later than itself, so its own instant does not show them (docs/hudi.md).
    """

    instant: str
    operation: str
    wrong: int = 0
    failure: str = ""
    overtaken: str = ""

    @property
    def right(self) -> bool:
        """Whether the instant shows what it always showed."""
        return not self.wrong and not self.failure
