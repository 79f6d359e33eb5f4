"""How many polls of an unchanged local table one core does: an appointment kept, a token read, another one made."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from bench.figure import Figure, figure
from bench.quiet_tables import write_quiet_table
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage import storage_for
from lakewarden.service.agenda import Agenda
from lakewarden.service.watch import Watch

_POLLS = 50_000


def measure() -> list[Figure]:
    """Poll one table again and again, as the control thread does between two changes.

    The baseline is what the operating system takes for the stats alone that a token of this table is made of.
    """
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    try:
        write_quiet_table(folder / "table")
        ours = _polls_per_second(folder / "table")
        baseline = _stats_per_second(folder / "table")
    finally:
        shutil.rmtree(folder)
    return [
        figure(
            "idle_poll",
            ours,
            "polls/s",
            judged="ours",
            goal=(">=", 10_000),
            baseline=baseline,
            ratio=ours / baseline,
        )
    ]


def _polls_per_second(location: Path) -> float:
    table = Table(id=TableId("quiet"), format="hudi", location=str(location))
    agenda = Agenda()
    watch = Watch(formats=FORMATS, storage_for=storage_for, clock=SystemClock())
    watch.read(table)
    agenda.put(table.id, 0)
    begun = time.process_time()
    news = 0
    for moment in range(_POLLS):
        due = agenda.pop(moment)
        if due is None:
            raise RuntimeError("the agenda has lost its table")
        news += watch.look(table).news
        agenda.put(due, moment + 1)
    spent = time.process_time() - begun
    if news > _POLLS / 100:
        raise RuntimeError(f"{news} of {_POLLS} polls read the table anew: it was not idle")
    return _POLLS / spent


def _stats_per_second(location: Path) -> float:
    home, timeline = location / ".hoodie", location / ".hoodie" / "timeline"
    begun = time.process_time()
    for _ in range(_POLLS):
        home.stat()
        timeline.stat()
    return _POLLS / (time.process_time() - begun)
