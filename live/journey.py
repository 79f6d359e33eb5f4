"""Time travel: the rows at one instant that a clean has left readable."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Journey:
    """The findings at one instant: how many rows differ from the record of that time, or why nothing could be read.

    `overtaken` is the instant of the compaction that was planned while this Hudi write was in flight. The log files of
    the write belong to file slices that begin later than the write. So its own instant does not show them
    (docs/hudi.md).
    """

    instant: str
    operation: str
    wrong: int = 0
    failure: str = ""
    overtaken: str = ""

    @property
    def right(self) -> bool:
        """Whether the instant shows the rows that it has always shown."""
        return not self.wrong and not self.failure
