"""How many polls of unchanged local tables a core does. A poll takes an appointment, a token that a reader process
reads, and a new appointment.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
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
_TIMEOUT = timedelta(minutes=5)
"""So that no table is taken for a slow one, which another process would read anew."""


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
        ours = observed(folder, polls).polls_per_second
        baseline = stats_per_second(sorted(folder.iterdir()), polls)
    finally:
        shutil.rmtree(folder)
    return [
        figure("idle_poll", ours, "polls/s", judged="ratio", goal=(">=", 0.5), baseline=baseline, ratio=ours / baseline)
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """What some tables cost: the first looks at all of them but one, in seconds of a core, and the polls afterwards
    that a core does in a second.
    """

    first_looks: float
    polls_per_second: float


def observed(folder: Path, polls: int) -> Observed:
    """Observe the tables of a folder, and poll them in turns until there were so many polls."""
    tables = {path.name: Table(id=TableId(path.name), format="hudi", location=str(path)) for path in folder.iterdir()}
    rung = threading.Event()
    readers = ProcessReaders(
        settings=ReadingSettings(processes=1),
        clock=SystemClock(),
        timeout=_TIMEOUT,
    )
    observations = Observations(readers=readers, tell=rung.set)
    try:
        poll_queue = PollQueue()
        first, *others = tables.values()
        poll_queue.put(first.id, 0)
        _turn(observations, poll_queue, tables, rung, moment=0)  # the reader process has started
        for table in others:
            poll_queue.put(table.id, 0)
        processes = [(here := psutil.Process()), *here.children()]
        before = core_seconds(processes)
        _turn(observations, poll_queue, tables, rung, moment=0)
        gc.freeze()  # as in a daemon after its start
        begun = core_seconds(processes)
        turns = range(1, polls // len(tables) + 1)
        news = sum(_turn(observations, poll_queue, tables, rung, moment=moment) for moment in turns)
        spent = core_seconds(processes) - begun
    finally:
        readers.close()
    if news > polls / 100:
        raise RuntimeError(f"{news} of {polls} polls read the table anew: it was not idle")
    return Observed(first_looks=begun - before, polls_per_second=len(turns) * len(tables) / spent)


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
        if not rung.wait(300):
            raise RuntimeError(f"{left} polls were not answered")
        rung.clear()
        for name, look in observations.answered().items():
            if not isinstance(look, Polled):
                raise look
            news += look.news
            poll_queue.put(name, moment + 1)
            left -= 1
    return news


def stats_per_second(locations: Sequence[Path], polls: int) -> float:
    """Return how many tables a core looks at in a second, with the stat calls alone."""
    homes = [(location / ".hoodie", location / ".hoodie" / "timeline") for location in locations]
    turns = range(polls // len(homes))
    begun = time.process_time()
    for _ in turns:
        for home, timeline in homes:
            home.stat()
            timeline.stat()
    return len(turns) * len(homes) / (time.process_time() - begun)
