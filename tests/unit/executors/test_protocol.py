"""The frames between the daemon and a worker are understood, whatever their content."""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.executors.contract import (
    Asked,
    Assignment,
    Ended,
    Failed,
    FailureKind,
    Granted,
    NothingToDo,
    Plan,
    Refused,
    RunProgress,
    StagesDone,
    Started,
    Succeeded,
    Yielded,
)
from lakewarden.executors.protocol import (
    Beat,
    Begin,
    Cancel,
    Channel,
    Frame,
    PermitAnswer,
    ProtocolError,
    Ready,
    Stop,
    Unable,
    decode,
    encode,
)
from lakewarden.planners.model.instant import RunId, Service, Step

_text = st.text(max_size=30)
_runs = _text.map(RunId)
_steps = st.sampled_from(Step)
_counts = st.none() | st.integers(min_value=0)
_seconds = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=30))
_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=5,
)
_options = st.dictionaries(_text, _json, max_size=3)
_plans = st.builds(Plan, instant=_text, file_groups=_counts, bytes=_counts, files_to_delete=_counts)
_permits = st.builds(Granted, reason=_text, expires=st.none() | _seconds) | st.builds(Refused, reason=_text)
_figures = st.dictionaries(_text, st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _text)
_outcomes = (
    st.builds(Succeeded, figures=_figures)
    | st.builds(NothingToDo, reason=_text, again=st.none() | _seconds)
    | st.builds(Yielded, reason=_text)
    | st.builds(Failed, kind=st.sampled_from(FailureKind), reason=_text, step=_steps, delay=_seconds)
)
_progress = st.builds(
    RunProgress,
    run=_runs,
    step=st.none() | _steps,
    bytes=_counts,
    file_groups=_counts,
    done=st.builds(StagesDone, tasks=st.integers(min_value=0), stage=st.none() | _text),
)
_frames: st.SearchStrategy[Frame] = st.one_of(
    st.builds(Begin, profile=_options),
    st.builds(
        Assignment,
        run=_runs,
        epoch=st.integers(min_value=0),
        table=_text,
        format=_text,
        location=_text,
        service=st.sampled_from(Service),
        instant=st.none() | _text,
        table_options=_options,
        service_options=_options,
    ),
    st.builds(PermitAnswer, run=_runs, step=_steps, permit=_permits),
    st.builds(Cancel, run=_runs, reason=_text),
    st.just(Stop()),
    st.builds(Ready, jvm_pid=st.integers(), slots=st.integers(), zone=_text, versions=st.dictionaries(_text, _text)),
    st.builds(Beat, rss_bytes=st.integers(min_value=0), progress=st.lists(_progress, max_size=3).map(tuple)),
    st.builds(Unable, reason=_text, no_run_is_to_blame=st.booleans()),
    st.builds(Started, run=_runs),
    st.builds(Asked, run=_runs, step=_steps, plan=st.none() | _plans),
    st.builds(Ended, run=_runs, outcome=_outcomes),
)


@given(_frames)
def test_what_is_said_is_what_is_heard(frame: Frame) -> None:
    """Every frame is sent and read back with its types, in one line."""
    line = encode(frame)

    assert decode(line) == frame
    assert line.count(b"\n") == 1


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"26/11/21 07:16:48 WARN Utils: the JVM prints this\n",
        b'{"Applause": {}}\n',
        b'{"Started": {}}\n',
        b'{"Started": {"run": "r"}, "Stop": {}}\n',
        b'{"Ended": {"run": "r", "outcome": {"Applause": {}}}}\n',
        b'{"Answer": {"run": "r", "step": "dance", "permit": {"Granted": {}}}}\n',
        b'["Started"]\n',
        b"\xff\n",
    ],
)
def test_what_is_no_frame_is_refused_with_a_quotation(line: bytes) -> None:
    """A line that is not of the protocol raises one clear error with the beginning of the line."""
    with pytest.raises(ProtocolError, match="not a frame of this protocol"):
        decode(line)


def test_a_channel_ends_when_the_other_side_is_gone() -> None:
    """Complete frames arrive, and a frame that was cut off does not. After that the channel ends without an error."""
    left, right = socket.socketpair()
    channel = Channel(right)
    Channel(left).send(Started(run=RunId("r")))
    left.sendall(b'{"Started": {"run"')
    left.shutdown(socket.SHUT_RDWR)

    assert list(channel.received()) == [Started(run=RunId("r"))]
    channel.close()
    left.close()
