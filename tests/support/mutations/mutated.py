"""A copy of the product and its tests, in which rules are broken on purpose."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """A rule that is taken out of the product: in `file`, `text` becomes `instead`. `tests` have to notice."""

    name: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of the tests in the copy: how many passed, how many failed by an assertion, and whatever else was."""

    passed: int
    failed: int
    other: Sequence[str]


class Copy:
    """A copy of the checkout's product and tests, and the process that runs tests in it. A context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for part in ("lakewarden", "tests"):
            shutil.copytree(
                ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "test_mutations.py")
            )
        shutil.copy(ROOT / "pyproject.toml", folder)
        self._judge = subprocess.Popen(
            [sys.executable, "-P", "tests/support/mutations/judge.py"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Copy:
        return self

    def __exit__(self, *_: object) -> None:
        self._judge.communicate()

    @contextmanager
    def broken_by(self, mutation: Mutation) -> Iterator[None]:
        """Break the rule for a while. Raises AssertionError if it does not stand where the mutation looks for it."""
        file = self._folder / mutation.file
        sound, known = file.read_text(), file.stat().st_mtime
        times = sound.count(mutation.text)
        assert times == 1, f"{mutation.file} holds this {times} times: {mutation.text}"
        file.write_text(sound.replace(mutation.text, mutation.instead))
        os.utime(file, (known + 10, known + 10))  # what was compiled is known by the time of its source
        try:
            yield
        finally:
            file.write_text(sound)
            os.utime(file, (known, known))

    def judge(self, tests: Sequence[str]) -> Verdict:
        """Run tests of the copy on the copy, in a process of their own."""
        report, output = self._folder / "report.xml", self._folder / "output"
        report.unlink(missing_ok=True)
        assert self._judge.stdin is not None
        assert self._judge.stdout is not None
        asked = {"tests": list(tests), "report": str(report), "output": str(output)}
        self._judge.stdin.write(json.dumps(asked) + "\n")
        self._judge.stdin.flush()
        assert self._judge.stdout.readline() == "run\n"
        assert report.exists(), output.read_text()
        return _verdict(ET.parse(report).iter("testcase"))


def _verdict(cases: Iterable[ET.Element]) -> Verdict:
    passed, failed, other = 0, 0, []
    for case in cases:
        ending = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        message = "" if ending is None else ending.get("message", "")
        if ending is None:
            passed += 1
        elif ending.tag == "failure" and message.startswith(("AssertionError", "assert ", "Failed: DID NOT RAISE")):
            failed += 1
        else:
            other.append(f"{case.get('name')}: {ending.tag}: {message}")
    return Verdict(passed=passed, failed=failed, other=other)
