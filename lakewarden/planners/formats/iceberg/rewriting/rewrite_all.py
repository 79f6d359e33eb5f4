"""Which files a rewrite of all files takes: those that the table had when it was asked for. Pure.

The mark is the newest snapshot at that time, with its sequence number. A writer gives its files a greater number. A
rewrite gives its files the number of the snapshot from which it was planned. That is the same number or a greater one,
and another snapshot adds them. So no rewritten file and no later file is taken, and the rewrite comes to an end. This
holds after the snapshot has expired, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.view import Blocker
from lakewarden.planners.settings import shown


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """The files of one `snapshot` and of all before it. `sequence` is its sequence number."""

    sequence: int
    snapshot: int

    def has(self, file: LiveFile) -> bool:
        """Whether a data file was there at the mark and was not rewritten since."""
        return file.sequence < self.sequence or (file.sequence == self.sequence and file.snapshot == self.snapshot)

    def to_text(self) -> str:
        """Return the mark as text."""
        return f"{self.sequence}-{self.snapshot}"

    @classmethod
    def of_text(cls, mark: str) -> Reach:
        """Read a mark. Raises PermanentError if it is none."""
        sequence, dash, snapshot = mark.partition("-")
        if not (dash and sequence.isdecimal() and snapshot.isdecimal()):
            raise PermanentError(f"{shown(mark)} is not a mark of a rewrite of all files: ask for the rewrite again")
        return cls(sequence=int(sequence), snapshot=int(snapshot))


def mark_of(metadata: TableMetadata) -> str | Blocker:
    """Return the mark of a rewrite of all files that the table has now, or why there can be none."""
    current = metadata.current_snapshot
    if current is None:
        return Blocker(
            code="unsupported_table",
            reason="the table has no snapshot, so it has no file to rewrite",
            remedy="write to it first",
        )
    if not current.sequence:
        return Blocker(
            code="unsupported_version",
            reason="the current snapshot has no sequence number, as in format version 1, so a rewrite of all files "
            "could not tell them from later ones",
            remedy="upgrade the table to format version 2, and let a writer commit once",
        )
    return Reach(sequence=current.sequence, snapshot=current.id).to_text()
