"""The exit code tells a violation from trouble of the harness, and evidence is kept of both."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from faults.verdict import HARNESS_FAILED, VIOLATED, WHOLE, perform
from lakewarden.demo.interruption import Interruption


@dataclass(frozen=True)
class Told:
    """A report of nothing but violations."""

    violations: Sequence[str] = ()

    def write(self, path: Path) -> None:
        path.write_text("{}")

    def tell(self, console: Console) -> None:
        console.print(*self.violations)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where the folders of trials are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def playing(told: Told) -> Callable[[Path, Console, Interruption], Told]:
    def play(directory: Path, console: Console, interruption: Interruption) -> Told:
        (directory / "evidence").touch()
        return told

    return play


def test_where_nothing_was_found_nothing_is_kept(folders: Path) -> None:
    """But the report, if one was asked for."""
    assert perform(1, folders / "report.json", playing(Told())) == WHOLE
    assert [path.name for path in folders.iterdir()] == ["report.json"]


def test_a_violation_keeps_its_folder(folders: Path) -> None:
    """With all that it shows in."""
    assert perform(1, None, playing(Told(["rows"]))) == VIOLATED
    assert list(folders.glob("*/evidence"))


def test_a_harness_that_fails_says_so_and_keeps_what_it_has(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its own mistake is no verdict, in neither direction."""

    def play(directory: Path, console: Console, interruption: Interruption) -> Told:
        raise KeyError("a mistake of the harness")

    assert perform(42, None, play) == HARNESS_FAILED
    assert "a mistake of the harness" in next(folders.glob("*/harness.txt")).read_text()
    assert "the harness has failed, seed 42" in capsys.readouterr().out
