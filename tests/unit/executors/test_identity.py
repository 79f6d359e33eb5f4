"""A living process is never proved dead. A dead one is, whichever process has its id now."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.executors import identity
from lakewarden.executors.identity import ProcessIdentity

_ENDLESS = "import signal; signal.pause()"
_FIRST_THREAD_ENDS = """
import ctypes, os, threading, time
threading.Thread(target=lambda: (time.sleep(0.2), print("on", flush=True), time.sleep(600))).start()
ctypes.CDLL(None).syscall(60, 0)  # exit(2): of this thread alone
"""
_numbers = st.integers(min_value=0, max_value=2**62)
_identities = st.builds(ProcessIdentity, boot=st.text(), namespace=st.text(), pid=_numbers, started=_numbers)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    """Start a process that does nothing."""
    with subprocess.Popen([sys.executable, "-c", _ENDLESS], text=True) as process:
        yield process
        process.kill()


def _identity(pid: int) -> ProcessIdentity:
    found = ProcessIdentity.of(pid)
    assert found is not None
    return found


def test_no_living_process_of_the_machine_is_proved_dead() -> None:
    """This holds for any name and state. A process lives unless it is gone at a second look."""
    pids = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal()]
    identities = [found for pid in pids if (found := ProcessIdentity.of(pid)) is not None]

    proved = [each for each in identities if each.is_proved_dead()]
    assert len(identities) > 1
    assert [each for each in proved if _is_running(each)] == []


def _is_running(who: ProcessIdentity) -> bool:
    status = Path(f"/proc/{who.pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text() and ProcessIdentity.of(who.pid) == who


def test_a_stopped_process_is_alive_and_a_killed_one_dead_before_and_after_it_is_reaped(
    child: subprocess.Popen[str],
) -> None:
    """A stopped process may continue at any moment. A zombie does not run any more, whether or not it is reaped."""
    who = _identity(child.pid)
    child.send_signal(signal.SIGSTOP)
    assert not who.is_proved_dead()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays a zombie
    assert who.is_proved_dead()

    child.wait()
    assert who.is_proved_dead()
    assert ProcessIdentity.of(child.pid) is None


def test_a_process_whose_first_thread_alone_has_ended_is_alive() -> None:
    """It is shown as a zombie, and its other threads continue."""
    with subprocess.Popen([sys.executable, "-c", _FIRST_THREAD_ENDS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        who = _identity(process.pid)
        assert "State:\tZ" in Path(f"/proc/{process.pid}/status").read_text()
        assert not who.is_proved_dead()
        process.kill()
    assert who.is_proved_dead()


def test_another_process_with_the_same_id_proves_the_first_one_dead(child: subprocess.Popen[str]) -> None:
    """An id is reused at another time."""
    now = _identity(child.pid)

    assert replace(now, started=now.started - 1).is_proved_dead()


@pytest.mark.parametrize("elsewhere", [{"boot": "another boot"}, {"namespace": "pid:[1]"}])
def test_of_another_machine_or_container_nothing_is_proved(
    child: subprocess.Popen[str], elsewhere: dict[str, Any]
) -> None:
    """A process that cannot be seen is not proved dead."""
    who = replace(_identity(child.pid), **elsewhere)
    child.kill()
    child.wait()

    assert not who.is_proved_dead()


def test_a_process_that_proc_hides_is_not_proved_dead(
    child: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `hidepid`, /proc shows only our own processes. The system still knows the others."""
    who = _identity(child.pid)
    monkeypatch.setattr(identity, "_PROC", tmp_path)

    assert not who.is_proved_dead()
    assert ProcessIdentity.of(child.pid) is None


@given(_identities)
def test_an_identity_survives_its_text(who: ProcessIdentity) -> None:
    """It is written and read back, in one line."""
    assert ProcessIdentity.from_text(who.to_text()) == who
    assert "\n" not in who.to_text()


@pytest.mark.parametrize("text", ["", "a process", "7", "[]", "{}", '{"pid": 7}'])
def test_what_is_no_identity_is_refused(text: str) -> None:
    """Any other text raises ValueError, and proves nothing."""
    with pytest.raises(ValueError):  # noqa: PT011 - json's own is as good
        ProcessIdentity.from_text(text)
