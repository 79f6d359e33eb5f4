"""The page that a reader process shares with the daemon: the daemon may read it between any two writes."""

from __future__ import annotations

import subprocess
import sys
import time

from lakewarden.planners.reading.board import Board, shared_memory

_BEGINS_AND_ENDS = """
import sys, time
from lakewarden.planners.reading.board import Board
board = Board(int(sys.argv[1]), threads=1)
for ticket in range(1, 300_000):
    board.begin(0, ticket, time.monotonic())
    board.end(0)
"""


def test_no_observation_seems_older_than_it_is_whenever_it_is_looked_at() -> None:
    """Under load a table was given up as not read within the time since the start of the machine: its ticket was read
    before its moment was written. Its process was killed with the observations of others.
    """
    memory = shared_memory(threads=1)
    board = Board(memory, threads=1)
    begun = time.monotonic()
    writer = subprocess.Popen([sys.executable, "-c", _BEGINS_AND_ENDS, str(memory)], pass_fds=[memory])
    seen = 0
    while writer.poll() is None:
        for one in board.under_way():
            seen += 1
            assert one.at >= begun
    assert writer.returncode == 0
    assert seen


def test_what_has_ended_is_not_under_way() -> None:
    """A cell without a ticket says nothing, whatever moment stands in it."""
    board = Board(shared_memory(threads=2), threads=2)
    board.begin(1, 7, 12.5)
    assert [(one.ticket, one.at) for one in board.under_way()] == [(7, 12.5)]
    board.end(1)
    assert board.under_way() == []
