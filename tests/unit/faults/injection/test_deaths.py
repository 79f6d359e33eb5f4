"""The death of a JVM is recorded soon, with a time at which it was certainly alive."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from faults.injection.deaths import Deaths
from tests.support.doubles.witness import Witness


def deaths_told(file: Path) -> list[dict[str, Any]]:
    return [told for line in file.read_text().splitlines() if (told := json.loads(line))["what"] == "dead"]


def test_a_jvm_that_is_killed_was_alive_until_just_before(tmp_path: Path) -> None:
    """A zombie counts as dead. A living JVM is not recorded."""
    file = tmp_path / "witness"
    witness = Witness(file=file)
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    jvms = [subprocess.Popen(command) for _ in range(2)]
    try:
        with Deaths(file) as deaths:
            for jvm in jvms:
                witness.tell("session", jvm=jvm.pid)
            time.sleep(0.3)
            assert deaths.watching
            killed_at = witness.clock.monotonic()
            jvms[0].kill()
            while not deaths_told(file):
                time.sleep(0.01)
        [told] = deaths_told(file)
        assert told["jvm"] == jvms[0].pid
        assert killed_at - 1 < told["alive_at"] <= told["at"]
        assert told["alive_at"] <= killed_at + 0.1
    finally:
        for jvm in jvms:
            jvm.kill()
            jvm.wait()


def test_a_jvm_that_was_gone_before_the_first_look_was_alive_when_it_reported_itself(tmp_path: Path) -> None:
    """No later time is known."""
    file = tmp_path / "witness"
    jvm = subprocess.Popen([sys.executable, "-c", ""])
    jvm.wait()
    Witness(file=file).tell("session", jvm=jvm.pid)
    born = json.loads(file.read_text())["at"]
    with Deaths(file):
        pass
    [told] = deaths_told(file)
    assert told["alive_at"] == born
