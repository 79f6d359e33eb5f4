"""How many polls of unchanged local tables a core does. A poll takes an appointment, a token that a reader process
reads, and a new appointment.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
import threading
import time
from pathlib import Path

import psutil

from bench.figure import Figure, figure
from bench.measuring.cores import core_seconds
from bench.polling.quiet_tables import write_quiet_table
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.config.document import ReadingSettings
from lakewarden.service.scheduling.poller import PollQueue
from lakewarden.service.state.observations import Observations, Polled
from lakewarden.service.state.readers.processes import ProcessReaders

_TABLES = 100
_POLLS = 50_000
_BRIEF_POLLS = 5_000


def measure(*, brief: bool = False) -> list[Figure]:
    """Poll the tables of one turn again and again, as the control thread does while nothing changes. The time of the
    process that reads the tokens counts, too.

    The baseline is the time of the operating system's stat calls alone, which make up the token of such a table.
    """
    polls = _BRIEF_POLLS if brief else _POLLS
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    try:
        for number in range(_TABLES):
            write_quiet_table(folder / f"t{number}")
        ours = _polls_per_second(folder, polls)
        baseline = _stats_per_second(folder / "t0", polls)
    finally:
        shutil.rmtree(folder)
    return [
        figure(
            "idle_poll", ours, "polls/s", judged="ours", goal=(">=", 80_000), baseline=baseline, ratio=ours / baseline
        )
    ]


def _polls_per_second(folder: Path, polls: int) -> float:
    tables = {path.name: Table(id=TableId(path.name), format="hudi", location=str(path)) for path in folder.iterdir()}
    rung = threading.Event()
    observations = Observations(
        readers=(readers := ProcessReaders(settings=ReadingSettings(processes=1), clock=SystemClock())), tell=rung.set
    )
    try:
        poll_queue = PollQueue()
        for table in tables.values():
            poll_queue.put(table.id, 0)
        _turn(observations, poll_queue, tables, rung, moment=0)
        gc.freeze()  # as in a daemon after its start
        processes = [(here := psutil.Process()), *here.children()]
        begun = core_seconds(processes)
        news = sum(
            _turn(observations, poll_queue, tables, rung, moment=moment) for moment in range(1, polls // _TABLES + 1)
        )
        spent = core_seconds(processes) - begun
    finally:
        readers.close()
    if news > polls / 100:
        raise RuntimeError(f"{news} of {polls} polls read the table anew: it was not idle")
    return polls / spent


def _turn(
    observations: Observations, poll_queue: PollQueue, tables: dict[str, Table], rung: threading.Event, *, moment: int
) -> int:
    """Poll every table, and return how many of them had changed."""
    due = []
    while (table := poll_queue.pop(moment)) is not None:
        due.append((tables[table], False))
    observations.request(due)
    left, news = len(due), 0
    while left:
        if not rung.wait(30):
            raise RuntimeError(f"{left} polls were not answered")
        rung.clear()
        for name, look in observations.answered().items():
            if not isinstance(look, Polled):
                raise look
            news += look.news
            poll_queue.put(name, moment + 1)
            left -= 1
    return news


def _stats_per_second(location: Path, polls: int) -> float:
    home, timeline = location / ".hoodie", location / ".hoodie" / "timeline"
    begun = time.process_time()
    for _ in range(polls):
        home.stat()
        timeline.stat()
    return polls / (time.process_time() - begun)
