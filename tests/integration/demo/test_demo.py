"""The whole demo as a user starts it, in a process of its own. It ends by itself or by a signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.waiting import HANGS, eventually

pytestmark = pytest.mark.spark

_DEMO = (sys.executable, "-m", "lakewarden.cli", "demo")


class RunningDemo:
    """A demo in a temporary folder of its own. All its processes are found by that folder."""

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

    def until(self, words: str) -> None:
        """Wait until the demo has printed `words`."""
        eventually(lambda: words in self.output or self.process.poll() is not None)
        assert words in self.output

    def ended(self, *, within: float) -> int:
        """Return the exit code, which must come in time."""
        return self.process.wait(timeout=within)

    def left_behind(self) -> list[str]:
        """Return the processes that work in the demo's folder, or have it among their arguments."""
        found = []
        for process in psutil.process_iter(["pid", "cmdline", "cwd", "status"]):
            info = process.info
            told = " ".join([*(info["cmdline"] or []), info["cwd"] or ""])
            if str(self.folder) in told and info["status"] != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
                found.append(told)
        return found


def sound_report(demo: RunningDemo, folder: Path, *, within: float, rows: int, commits: int) -> Any:
    """Return the report of a demo that has ended with 0, with every row right and with nothing left behind.

    It must have more than `rows` rows and at least so many commits.
    """
    assert demo.ended(within=within) == 0, demo.output
    report = json.loads(demo.report.read_text())
    assert report["rows_wrong"] == 0
    assert report["rows_found"] == report["rows_expected"] > rows
    assert report["writer"]["commits"] >= commits
    assert report["writer"]["failures"] == report["reader"]["failures"] == 0
    eventually(lambda: demo.left_behind() == [])
    assert not list(folder.glob("lakewarden-demo-*"))
    return report


@pytest.mark.core
@pytest.mark.timeout(600)
def test_the_demo_keeps_a_live_table_healthy_and_proves_it(tmp_path: Path) -> None:
    """The demo ends with 0, every row is right, and no writer or reader is disturbed. Neither a process nor a folder is
    left behind.
    """
    demo = RunningDemo(tmp_path, seconds=25)

    report = sound_report(demo, tmp_path, within=500, rows=100, commits=3)
    assert report["services"]["compaction"]["succeeded"] >= 1
    assert report["services"]["clean"]["succeeded"] >= 1
    assert report["log_files"]["peak"] > report["log_files"]["end"] == 0


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_the_demo_does_the_same_on_iceberg(tmp_path: Path) -> None:
    """The writer appends, MERGEs and deletes. Every row is right, by a reader without Iceberg's own code."""
    demo = RunningDemo(tmp_path, seconds=45, table_format="iceberg")

    report = sound_report(demo, tmp_path, within=800, rows=50, commits=6)
    assert all(report["services"][name]["succeeded"] >= 1 for name in ("compaction", "clean", "archive"))
    assert report["delete_files"]["peak"] > report["delete_files"]["end"] == 0
    assert report["snapshots"]["peak"] > report["snapshots"]["end"]


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_the_demo_does_the_same_on_paimon(tmp_path: Path) -> None:
    """The writer inserts, changes and deletes by key. Every row is right, by Paimon's own reader in another JVM. Days
    that are long past are marked as done, and dropped.
    """
    demo = RunningDemo(tmp_path, seconds=45, table_format="paimon")

    report = sound_report(demo, tmp_path, within=500, rows=100, commits=6)
    services = ("compaction", "clean", "archive", "partition_commit", "ttl")
    assert all(report["services"][name]["succeeded"] >= 1 for name in services)
    assert report["level_0_files"]["peak"] > report["level_0_files"]["end"] == 0
    assert report["snapshots"]["peak"] > report["snapshots"]["end"]


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_the_demo_does_the_same_on_a_directory(tmp_path: Path) -> None:
    """Small files become few, partitions are committed, and a reader finds each row once at every moment."""
    demo = RunningDemo(tmp_path, seconds=25, table_format="directory")

    report = sound_report(demo, tmp_path, within=500, rows=100, commits=6)
    assert report["services"]["compaction"]["succeeded"] >= 1
    assert report["services"]["partition_commit"]["succeeded"] >= 1
    assert report["small_files"]["peak"] > report["small_files"]["end"] == 0


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
    """After SIGINT at any moment, the demo ends soon with 130. Neither a process nor a folder is left behind."""
    demo = RunningDemo(tmp_path, seconds=60)
    demo.until(moment)
    time.sleep(pause)

    demo.process.send_signal(signal.SIGINT)

    assert demo.ended(within=HANGS) == 128 + signal.SIGINT, demo.output
    eventually(lambda: demo.left_behind() == [])
    assert "Traceback" not in demo.output
    assert not list(tmp_path.glob("lakewarden-demo-*"))


@pytest.mark.timeout(400)
def test_a_signal_ends_it_while_it_drains(tmp_path: Path) -> None:
    """SIGTERM goes to the whole group while the last log files are compacted. Nothing is left behind."""
    demo = RunningDemo(tmp_path, seconds=5)
    demo.until("draining")

    os.killpg(demo.process.pid, signal.SIGTERM)

    assert demo.ended(within=HANGS) == 128 + signal.SIGTERM, demo.output
    eventually(lambda: demo.left_behind() == [])
