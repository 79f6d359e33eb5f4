"""The whole demo as a user starts it: a process of its own, ended by itself or by a signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.spark

_DEMO = (sys.executable, "-m", "lakewarden.cli", "demo")


class Theatre:
    """A demo in a temporary folder of its own, by which everything that it starts is known."""

    def __init__(self, folder: Path, *, seconds: int, table_format: str = "hudi") -> None:
        self.folder = folder
        self.report = folder / "report.json"
        self._output = folder / "output"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [*_DEMO, "--format", table_format, "--seconds", str(seconds), "--report", str(self.report)],
                env={**os.environ, "TMPDIR": str(folder)},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def until(self, words: str, *, within: float = 240) -> None:
        """Wait until the demo has printed `words`."""
        wait_until(lambda: words in self.output or self.process.poll() is not None, within=within)
        assert words in self.output

    def ended(self, *, within: float) -> int:
        """Return the exit code, which must come in time."""
        return self.process.wait(timeout=within)

    def left_behind(self) -> list[str]:
        """Return the processes that work in the demo's folder, or are told of it."""
        found = []
        for process in psutil.process_iter(["pid", "cmdline", "cwd", "status"]):
            info = process.info
            told = " ".join([*(info["cmdline"] or []), info["cwd"] or ""])
            if str(self.folder) in told and info["status"] != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
                found.append(told)
        return found


def wait_until(what: Callable[[], bool], *, within: float) -> None:
    deadline = time.monotonic() + within
    while not what():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


@pytest.mark.core
@pytest.mark.timeout(600)
def test_the_demo_keeps_a_live_table_healthy_and_proves_it(tmp_path: Path) -> None:
    """The demo ends with 0, every row right and nobody disturbed, and leaves neither a process nor a folder."""
    demo = Theatre(tmp_path, seconds=25)

    assert demo.ended(within=500) == 0, demo.output

    report = json.loads(demo.report.read_text())
    assert report["rows_wrong"] == 0
    assert report["rows_found"] == report["rows_expected"] > 100
    assert report["writer"]["commits"] >= 3
    assert report["writer"]["failures"] == report["reader"]["failures"] == 0
    assert report["services"]["compaction"]["succeeded"] >= 1
    assert report["services"]["clean"]["succeeded"] >= 1
    assert report["log_files"]["peak"] > report["log_files"]["end"] == 0
    assert demo.left_behind() == []
    assert not list(tmp_path.glob("lakewarden-demo-*"))


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_the_demo_does_the_same_on_iceberg(tmp_path: Path) -> None:
    """Beside a writer that appends, MERGEs and deletes: every row right, by a reader of another make."""
    demo = Theatre(tmp_path, seconds=45, table_format="iceberg")

    assert demo.ended(within=800) == 0, demo.output

    report = json.loads(demo.report.read_text())
    assert report["rows_wrong"] == 0
    assert report["rows_found"] == report["rows_expected"] > 50
    assert report["writer"]["commits"] >= 6
    assert report["writer"]["failures"] == report["reader"]["failures"] == 0
    assert all(report["services"][name]["succeeded"] >= 1 for name in ("compaction", "clean", "archive"))
    assert report["delete_files"]["peak"] > report["delete_files"]["end"] == 0
    assert report["snapshots"]["peak"] > report["snapshots"]["end"]
    assert demo.left_behind() == []
    assert not list(tmp_path.glob("lakewarden-demo-*"))


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("moment", "pause"),
    [
        pytest.param("starting ZooKeeper", 0.0, id="before ZooKeeper answers"),
        pytest.param("starting the daemon", 0.3, id="while the daemon and the writer start"),
        pytest.param("starting the daemon", 5.0, id="while their JVMs start"),
        pytest.param("compaction", 0.5, id="while a compaction runs"),
    ],
)
def test_ctrl_c_ends_it_at_any_moment(tmp_path: Path, moment: str, pause: float) -> None:
    """After SIGINT, whenever it comes, the demo ends soon with 130 and leaves neither a process nor a folder."""
    demo = Theatre(tmp_path, seconds=60)
    demo.until(moment)
    time.sleep(pause)

    demo.process.send_signal(signal.SIGINT)

    assert demo.ended(within=60) == 128 + signal.SIGINT, demo.output
    assert demo.left_behind() == []
    assert "Traceback" not in demo.output
    assert not list(tmp_path.glob("lakewarden-demo-*"))


@pytest.mark.timeout(400)
def test_a_signal_ends_it_while_it_drains(tmp_path: Path) -> None:
    """SIGTERM to the whole group while the last log files are being compacted: nothing is left behind."""
    demo = Theatre(tmp_path, seconds=5)
    demo.until("draining")

    os.killpg(demo.process.pid, signal.SIGTERM)

    assert demo.ended(within=60) == 128 + signal.SIGTERM, demo.output
    assert demo.left_behind() == []
