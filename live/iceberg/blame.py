"""Whose fault a failed commit is on Iceberg: what its exception says, and where that does not tell, who was about.

The sentences are Iceberg's own (`MergingSnapshotProducer`): a writer that finds data files gone which it has read has
lost to whoever replaced them, and one that finds new files has lost to another writer, for a rewrite adds none that
count as new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from lakewarden.demo.writers.record import Batch
from lakewarden.service.http.schemas import RunBody
from live import blame

_OTHER_WRITERS = re.compile("Found conflicting files|Found new conflicting delete files")
_OURS = re.compile("missing data files|NotFoundException|FileNotFound|does not exist")


def caused_by_us(failures: Iterable[Batch], runs: Sequence[RunBody]) -> list[Batch]:
    """Return the failures that are our fault. What nobody can explain is ours, if a run of ours was near it."""
    return [batch for batch in failures if _ours(batch, runs)]


def _ours(batch: Batch, runs: Sequence[RunBody]) -> bool:
    if _OURS.search(batch.message):
        return True
    return not _OTHER_WRITERS.search(batch.message) and bool(blame.caused_by_us([batch], runs))
