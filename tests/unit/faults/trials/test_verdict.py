"""The exit code tells a violation from an error of the harness. The evidence of both is kept."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from faults.trials.verdict import HARNESS_FAILED, VIOLATED, WHOLE, run_trial
from lakewarden.demo.interruption import Interruption


@dataclass(frozen=True)
class Told:
    """A report with only violations."""

    violations: Sequence[str] = ()

    def write(self, path: Path) -> None:
        path.write_text("{}")

    def tell(self, console: Console) -> None:
        console.print(*self.violations)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which the trials make their folders."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def playing(told: Told) -> Callable[[Path, Console, Interruption], Told]:
    def run(directory: Path, console: Console, interruption: Interruption) -> Told:
        (directory / "evidence").touch()
        return told

    return run


def test_where_nothing_was_found_nothing_is_kept(folders: Path) -> None:
    """The report is kept if one was asked for."""
    assert run_trial(1, folders / "report.json", playing(Told())) == WHOLE
    assert [path.name for path in folders.iterdir()] == ["report.json"]


def test_a_violation_keeps_its_folder(folders: Path) -> None:
    """The folder has all the evidence."""
    assert run_trial(1, None, playing(Told(["rows"]))) == VIOLATED
    assert list(folders.glob("*/evidence"))


def test_a_harness_that_fails_says_so_and_keeps_what_it_has(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An error of the harness is no verdict, in neither direction."""

    def run(directory: Path, console: Console, interruption: Interruption) -> Told:
        raise KeyError("a mistake of the harness")

    assert run_trial(42, None, run) == HARNESS_FAILED
    assert "a mistake of the harness" in next(folders.glob("*/harness.txt")).read_text()
    assert "the harness has failed, seed 42" in capsys.readouterr().out
