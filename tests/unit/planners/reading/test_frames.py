"""A reader process has decoded untrusted files. The daemon takes values from it, and nothing else."""

from __future__ import annotations

import io
import os
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.errors import TemporaryError, UnknownError
from lakewarden.planners.model.proof import LockReading, LockSample
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.reading.board import Board, shared_memory
from lakewarden.planners.reading.frames import LARGEST_BYTES, Frames, checked, framed
from lakewarden.planners.reading.observing import Answers, ObservationAnswer, ReadFailure
from lakewarden.planners.storage import LocalStorage
from tests.support.doubles.fake import FAKE, FakeTable


class _Calls:
    """What a reader process under hostile control could send."""

    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        self._call, self._arguments = call, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._call, self._arguments


def by_name(module: str, name: str, argument: str) -> bytes:
    """Return a pickle that calls the function of a dotted name, in a known module."""
    strings = b"".join(b"\x8c" + bytes([len(one)]) + one.encode() for one in (module, name))
    return b"\x80\x04" + strings + b"\x93" + b"\x8c" + bytes([len(argument)]) + argument.encode() + b"\x8c\x01w\x86R."


def test_answers_arrive_as_they_were_sent(tmp_path: Path) -> None:
    """Views arrive with all their content, and errors with their delay."""
    lake = FakeTable.create(tmp_path / "trips", clock=SystemClock())
    lake.write()
    lake.begin_write()
    table = Table(id=TableId("trips"), format="fake", location=str(lake.folder))
    observation = FAKE.observe(table, LocalStorage(), None, now=SystemClock().now())
    sample = LockSample(number="1", since=SystemClock().now(), mark="2-0", taken=2)
    view = replace(observation.view, lock=LockReading(name="/hudi/trips", before=sample, after=sample))
    answers = Answers(
        unchanged=[1, 2],
        others=[
            ObservationAnswer(3, observation=type(observation)(token=observation.token, view=view)),
            ObservationAnswer(4, failure=ReadFailure.of(TemporaryError("not now"))),
        ],
    )
    frames = Frames()
    frames.feed(framed(answers))
    content = frames.next()
    assert content is not None
    assert checked(content) == answers


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(lambda path: pickle.dumps(_Calls(os.truncate, path, 0)), id="a function"),
        pytest.param(lambda path: pickle.dumps(_Calls(io.FileIO, path, "w")), id="a type that acts"),
        pytest.param(lambda path: by_name("lakewarden.planners.reading.frames", "io.FileIO", path), id="a dotted name"),
        pytest.param(lambda path: by_name("lakewarden.planners.model.view", "datetime", path), id="what it imports"),
        pytest.param(lambda path: pickle.dumps(_Calls(LocalStorage)), id="a type of ours that is not a value"),
        pytest.param(lambda path: pickle.dumps(_Calls(socket.socket)), id="a socket"),
        pytest.param(lambda path: by_name("lakewarden.planners.reading.__main__", "serve", path), id="a module"),
        pytest.param(lambda path: b"\x80\x04", id="half a pickle"),
        pytest.param(lambda path: b"", id="nothing"),
    ],
)
def test_nothing_but_values_is_taken(tmp_path: Path, sent: Callable[[str], bytes]) -> None:
    """No function is called, no file is opened, no module is imported."""
    victim = tmp_path / "victim"
    victim.write_text("kept")
    with pytest.raises(UnknownError, match="not an answer"):
        checked(sent(str(victim)))
    assert victim.read_text() == "kept"


@given(st.binary(max_size=200))
def test_rubbish_is_an_error_and_nothing_else(rubbish: bytes) -> None:
    """This holds for anything that a reader sends."""
    try:
        checked(rubbish)
    except UnknownError:
        return


def test_frames_come_whole_however_they_are_cut() -> None:
    """A socket returns the bytes that have arrived."""
    sent = framed([1]) + framed([2])
    frames = Frames()
    found = []
    for one in sent:
        frames.feed(bytes([one]))
        while (content := frames.next()) is not None:
            found.append(checked(content))
    assert found == [[1], [2]]


def test_a_frame_without_measure_is_refused() -> None:
    """It is refused before any memory is taken for it."""
    frames = Frames()
    frames.feed((LARGEST_BYTES + 1).to_bytes(8, "big"))
    with pytest.raises(UnknownError, match="larger than"):
        frames.next()


# The page that a reader process shares with the daemon: the daemon may read it between any two writes.


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
