"""What `./dev test` runs: parts, one after the other, each with its output as it goes and its time.

    python tools/suite.py                  what CI runs: lint, every test without a JVM, the core on real Spark
    python tools/suite.py --all            everything: in place of the core each folder of tests/integration, then
                                           bench, docs, chart, image
    python tools/suite.py --all iceberg    these parts alone

A test that failed runs once more, alone, when all parts have ended. If it passes then, its name is printed as
`flaky: NAME`, and the suite is green. Exit codes: 0 green, 1 red, 2 for a part that does not exist. JUnit files lie in
.dev/tests.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
WITHOUT_A_JVM = ("tests/unit", "tests/contract", "tests/mutations")
SERVICES = Path("tests/integration")
MOST_RETRIED = 10
"""More failed tests than this are a fault, and not the machine."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One command of the suite. `tests` are arguments of pytest; without them `command` is run as it is."""

    name: str
    tests: Sequence[str] = ()
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


LINT = Part(name="lint", command=("./dev", "lint"))
BY_FILE = ("--dist=loadfile", "--no-loadscope-reorder")
"""In the order of their names. By the number of their tests the longest files would come last: they have few."""
IN_PROCESSES = ("--numprocesses=3", *BY_FILE)
UNIT = Part(name="unit", tests=(*WITHOUT_A_JVM, "-m", "not long", "--hypothesis-profile=brief", *IN_PROCESSES))
IN_SESSIONS = ("--numprocesses=2", *BY_FILE)
"""Many tests wait: three processes keep two cores busy, and so do two with two JVMs each."""
CORE = Part(name="core", tests=(str(SERVICES), "-m", "core", *IN_SESSIONS))
LONG_UNIT = Part(name="unit", tests=(*WITHOUT_A_JVM, *IN_PROCESSES), environment={"LAKEWARDEN_PROGRAMS": "1000"})
CHART = Part(name="chart", command=("./dev", "chart"))
DOCS = Part(name="docs", command=("./dev", "docs"))
ROWS = Part(name="rows", command=("./dev", "fuzz", "rows"))
BENCH = Part(name="bench", command=("./dev", "bench", "--brief"))
IMAGE = Part(name="image", command=("./dev", "image", "--debian"))


def core() -> Sequence[Part]:
    """Return what must be green at every change."""
    return (LINT, UNIT, CORE)


def everything(root: Path = ROOT) -> Sequence[Part]:
    """Return every test once. The folder of the chart's tests belongs to `./dev chart`."""
    folders = sorted(folder.name for folder in (root / SERVICES).iterdir() if any(folder.rglob("test_*.py")))
    services = [_of_services(name) for name in folders if name != "chart"]
    return (LINT, LONG_UNIT, *services, ROWS, BENCH, DOCS, CHART, IMAGE)


def _of_services(folder: str) -> Part:
    marked = ("-m", folder) if folder == "versions" else ()  # its mark keeps it out of a run by path
    return Part(name=folder, tests=(str(SERVICES / folder), *marked, *IN_SESSIONS))


class Suite:
    """Runs parts in `root`, and remembers what failed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._notes = root / ".dev" / "tests"

    def run(self, parts: Sequence[Part]) -> int:
        """Run the parts and what failed in them once more. Return 0 if everything has passed in the end, else 1.

        Nothing runs after a failed lint. A part that failed without naming a test is never run again.
        """
        shutil.rmtree(self._notes, ignore_errors=True)
        begun = time.monotonic()
        red: list[str] = []
        failed: list[str] = []
        for part in parts:
            before, code = failed, self._run(part)
            failed = self._failed()
            if code != 0 and (code != 1 or failed == before):
                red.append(part.name)
            if red == [LINT.name]:
                break
        flaky = [] if red or not failed else self._again(failed)
        if failed and not flaky:
            red += failed
        for name in flaky:
            _say(f"flaky: {name}")
        verdict = f"RED: {', '.join(red)}" if red else "green"
        _say(
            f"{', '.join(part.name for part in parts)}: {verdict}; {len(flaky)} flaky; {time.monotonic() - begun:.0f} s"
        )
        return 1 if red else 0

    def _run(self, part: Part) -> int:
        begun = time.monotonic()
        _say(f"{part.name} begins")
        command = self._pytest(part.name, *part.tests) if part.tests else part.command
        code = subprocess.run(command, cwd=self._root, env={**os.environ, **part.environment}, check=False).returncode
        _say(f"{part.name} {'passed' if code == 0 else f'ended with {code}'} after {time.monotonic() - begun:.0f} s")
        return code

    def _pytest(self, name: str, *arguments: str) -> Sequence[str]:
        junit = self._notes / f"{name}.xml"
        return (
            "pytest",
            *arguments,
            "--instafail",
            "-o",
            f"cache_dir={self._notes}",
            f"--junitxml={junit}",
            "--durations=20",
        )

    def _failed(self) -> list[str]:
        """Return the tests that failed, as pytest has noted them."""
        notes = self._notes / "v" / "cache" / "lastfailed"
        return sorted(json.loads(notes.read_text())) if notes.exists() else []

    def _again(self, failed: Sequence[str]) -> list[str]:
        """Run these tests alone, and return them if all of them pass."""
        if len(failed) > MOST_RETRIED:
            _say(f"{len(failed)} tests failed: too many to be run again")
            return []
        _say(f"{len(failed)} tests failed, and run once more, alone")
        return list(failed) if self._run(Part(name="again", tests=failed)) == 0 else []


def _say(line: str) -> None:
    print(f"suite: {line}", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments name, and return the exit code."""
    if not arguments:
        return Suite(ROOT).run(core())
    parts = {part.name: part for part in everything()}
    named = arguments[1:] or list(parts)
    unknown = [name for name in named if name not in parts]
    if arguments[0] != "--all" or unknown:
        _say(f"there is no part {', '.join(unknown) or arguments[0]}: choose from {', '.join(parts)}")
        return 2
    return Suite(ROOT).run([parts[name] for name in named])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
