"""Which failed commits on Iceberg Lakewarden has caused: by the exception or, if the exception does not say, by the
runs near it.

The sentences are Iceberg's own (`MergingSnapshotProducer`). If a writer finds that data files which it has read are
gone, it has lost to the commit that replaced them. If it finds new files, it has lost to another writer, for a rewrite
adds no files that count as new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from lakewarden.demo.writers.orders import Batch
from lakewarden.service.http.schemas import RunBody
from live import blame

_OTHER_WRITERS = re.compile("Found conflicting files|Found new conflicting delete files")
_OURS = re.compile("missing data files|NotFoundException|FileNotFound|does not exist")


def caused_by_us(failures: Iterable[Batch], runs: Sequence[RunBody]) -> list[Batch]:
    """Return the failures that Lakewarden has caused. A failure without an explanation counts if a run of Lakewarden
    was near it.
    """
    return [batch for batch in failures if _ours(batch, runs)]


def lost_to_another_writer(batch: Batch) -> bool:
    """Whether a failed commit lost to the commit of another writer."""
    return bool(_OTHER_WRITERS.search(batch.message)) and not _OURS.search(batch.message)


def _ours(batch: Batch, runs: Sequence[RunBody]) -> bool:
    if _OURS.search(batch.message):
        return True
    return not lost_to_another_writer(batch) and bool(blame.caused_by_us([batch], runs))
