"""How many polls of unchanged local tables a core does: appointments kept, tokens read elsewhere, others made."""

from __future__ import annotations

import gc
import shutil
import tempfile
import threading
import time
from pathlib import Path

import psutil

from bench.cores import core_seconds
from bench.figure import Figure, figure
from bench.quiet_tables import write_quiet_table
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.config.reading import ReadingSettings
from lakewarden.service.scheduling.poll_queue import PollQueue
from lakewarden.service.state.observations import Look, Observations
from lakewarden.service.state.readers.processes import ProcessReaders

_TABLES = 100
_POLLS = 50_000


def measure() -> list[Figure]:
    """Poll the tables of one turn again and again, as the control thread does while nothing changes. What the process
    that reads them takes counts, too.

    The baseline is what the operating system takes for the stats alone that the token of such a table is made of.
    """
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    try:
        for number in range(_TABLES):
            write_quiet_table(folder / f"t{number}")
        ours = _polls_per_second(folder)
        baseline = _stats_per_second(folder / "t0")
    finally:
        shutil.rmtree(folder)
    return [
        figure(
            "idle_poll", ours, "polls/s", judged="ours", goal=(">=", 80_000), baseline=baseline, ratio=ours / baseline
        )
    ]


def _polls_per_second(folder: Path) -> float:
    tables = {path.name: Table(id=TableId(path.name), format="hudi", location=str(path)) for path in folder.iterdir()}
    rung = threading.Event()
    watch = Observations(
        readers=(readers := ProcessReaders(settings=ReadingSettings(processes=1), clock=SystemClock())), tell=rung.set
    )
    try:
        agenda = PollQueue()
        for table in tables.values():
            agenda.put(table.id, 0)
        _turn(watch, agenda, tables, rung, moment=0)
        gc.freeze()  # as a daemon does that has started
        processes = [(here := psutil.Process()), *here.children()]
        begun = core_seconds(processes)
        news = sum(_turn(watch, agenda, tables, rung, moment=moment) for moment in range(1, _POLLS // _TABLES))
        spent = core_seconds(processes) - begun
    finally:
        readers.close()
    if news > _POLLS / 100:
        raise RuntimeError(f"{news} of {_POLLS} polls read the table anew: it was not idle")
    return _POLLS / spent


def _turn(
    watch: Observations, agenda: PollQueue, tables: dict[str, Table], rung: threading.Event, *, moment: int
) -> int:
    """Poll every table, and return how many of them had changed."""
    due = []
    while (table := agenda.pop(moment)) is not None:
        due.append((tables[table], False))
    watch.look(due)
    left, news = len(due), 0
    while left:
        if not rung.wait(30):
            raise RuntimeError(f"{left} polls were not answered")
        rung.clear()
        for name, look in watch.answered().items():
            if not isinstance(look, Look):
                raise look
            news += look.news
            agenda.put(name, moment + 1)
            left -= 1
    return news


def _stats_per_second(location: Path) -> float:
    home, timeline = location / ".hoodie", location / ".hoodie" / "timeline"
    begun = time.process_time()
    for _ in range(_POLLS):
        home.stat()
        timeline.stat()
    return _POLLS / (time.process_time() - begun)
