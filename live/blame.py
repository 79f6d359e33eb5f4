"""Which failed commits count as caused by Lakewarden: those within a minute of one of its runs, unless they are
explained.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from lakewarden.demo.writers.orders import Batch
from lakewarden.service.http.schemas import RunBody

NEAR = timedelta(minutes=1)


def caused_by_us(failures: Iterable[Batch], runs: Sequence[RunBody]) -> list[Batch]:
    """Return the failed batches that were open within a minute of a run of Lakewarden."""
    return [batch for batch in failures if any(_near(batch, run) for run in runs)]


def _near(batch: Batch, run: RunBody) -> bool:
    if run.started_at is None:
        return False
    never = datetime.max.replace(tzinfo=UTC)
    failed, ended = batch.answered or never, run.ended_at or never
    starts_before_it_ends = failed > run.started_at - NEAR
    ends_after_it_starts = ended == never or ended + NEAR > batch.begun
    return starts_before_it_ends and ends_after_it_starts
