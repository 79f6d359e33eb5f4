"""How the cost of looks and polls grows with the number of tables, and with the commits on a timeline."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.figure import Figure, figure
from bench.polling.idle_poll import observed, stats_per_second
from bench.polling.quiet_tables import write_quiet_table
from lakewarden.service.state.observations import FULL_EVERY

_TABLES, _COMMITS = (100, 1_000, 10_000, 40_000), 4
_LENGTHS, _LONG_TABLES = (10, 1_000, 10_000), 10
_POLLS_EACH = FULL_EVERY - 60
"""Of each table, so that none of them is read completely."""

_POLLS = 40_000
_FIRST_LOOK_AT_MOST, _POLL_AT_MOST = 40.0, 16.0
"""Times the bare work, whatever the size: nothing grows faster than linear."""

_BRIEF_TABLES, _BRIEF_LENGTHS, _BRIEF_POLLS = (20, 40), (10, 20), 400


def measure(*, brief: bool = False) -> list[Figure]:
    """Observe more and more quiet tables on a local disk, then tables with more and more commits, and poll them.

    The baseline is the bare work on the same tables: for a poll the stat calls of its token, for a first look the
    listing of the timeline, with a stat call for each file, and the reading of the properties.
    """
    tables = _BRIEF_TABLES if brief else _TABLES
    lengths = _BRIEF_LENGTHS if brief else _LENGTHS
    polls = _BRIEF_POLLS if brief else _POLLS
    grown = [(f"growth_{number}_tables", _measured(number, commits=_COMMITS, polls=polls)) for number in tables]
    grown += [
        (f"growth_{commits}_commits", _measured(_LONG_TABLES, commits=commits, polls=polls)) for commits in lengths
    ]
    return [
        one
        for name, (first_look, bare_look, poll, bare_poll) in grown
        for one in (
            _figure(f"{name}_first_look", first_look, bare_look, at_most=_FIRST_LOOK_AT_MOST),
            _figure(f"{name}_poll", poll, bare_poll, at_most=_POLL_AT_MOST),
        )
    ]


def _figure(name: str, ours: float, bare: float, *, at_most: float) -> Figure:
    return figure(
        name, ours * 1e6, "us of a core", judged="ratio", goal=("<=", at_most), baseline=bare * 1e6, ratio=ours / bare
    )


def _measured(number: int, *, commits: int, polls: int) -> tuple[float, float, float, float]:
    """Return the seconds of a core for each table: a first look and its bare work, a poll and its bare work."""
    with tempfile.TemporaryDirectory(prefix="lakewarden-bench-") as folder:
        locations = [Path(folder) / f"t{count}" for count in range(number)]
        for location in locations:
            write_quiet_table(location, commits=commits)
        polls = min(max(polls, number), _POLLS_EACH * number)
        ours = observed(Path(folder), polls)
        return (
            ours.first_looks / (number - 1),
            _bare_looks(locations) / number,
            1 / ours.polls_per_second,
            1 / stats_per_second(locations, polls),
        )


def _bare_looks(locations: Sequence[Path]) -> float:
    """Return the seconds of a core that listing the timelines and reading the properties takes."""
    begun = time.process_time()
    for location in locations:
        with os.scandir(location / ".hoodie" / "timeline") as entries:
            for entry in entries:
                entry.stat()
        (location / ".hoodie" / "hoodie.properties").read_bytes()
    return time.process_time() - begun
