"""The report counts faults by their victim, and the times of the recoveries."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from faults.formats.hudi.trial import TARGETS
from faults.formats.registry import TRIALS
from faults.injection.schedule import ScheduledFault, Victim
from faults.trials.recovery import Recovery
from faults.trials.report import name_of, report_of
from faults.trials.rounds import Round
from faults.trials.verdict import HARNESS_FAILED, VIOLATED, WHOLE, run_trial
from lakewarden.demo.interruption import Interruption
from lakewarden.demo.report import WriterTally
from lakewarden.executors.points import Point
from lakewarden.planners.model.instant import Service

POINTS = TARGETS.points


def a_round(number: int, *, reached: bool = True, seconds: float | None = 4.0, victim: Victim = Victim.JVM) -> Round:
    fault = ScheduledFault(
        number=number,
        service=Service.CLEAN,
        point=Point.EXECUTED,
        victim=victim,
        by_itself=False,
        frozen_seconds=2,
        patient=True,
    )
    recovered_at = None if seconds is None else 10 + seconds
    recovery = Recovery(
        service=Service.CLEAN, run="r1", pending=(), injected_at=10, recovered_at=recovered_at, heartbeat=1.5
    )
    return Round(fault=fault, reached=reached, recovery=recovery)


ROUNDS = [a_round(1), a_round(2, reached=False, seconds=None), a_round(3, seconds=8, victim=Victim.DAEMON)]


def test_a_fault_counts_for_its_point_only_if_that_was_reached(tmp_path: Path) -> None:
    """A fault without a recovery has no time. The seed is printed, so the trial can be repeated."""
    report = report_of(
        ROUNDS,
        table_format="hudi",
        points=POINTS,
        seed=4711,
        seconds=60,
        violations=["rows: one is missing"],
        writer=WriterTally(commits=9, failures=0),
        runs={"clean": {"SUCCEEDED": 2}},
        resumed=0,
    )
    report.write(tmp_path / "report.json")
    told = json.loads((tmp_path / "report.json").read_text())
    assert (told["rounds"], told["elsewhere"], told["violations"]) == (3, 1, ["rows: one is missing"])
    assert told["kills"]["K4 executed"] == 2
    assert sum(told["kills"].values()) == 2
    assert told["by_victim"] == {"daemon": 1, "jvm": 2}
    assert told["recovery_seconds"] == {"p50": 6.0, "max": 8.0}
    assert told["heartbeat_wait_seconds"] == {"p50": 1.5, "max": 1.5}
    assert told["writer"] == {"commits": 9, "failures": 0, "reasons": []}
    console = Console(record=True, width=200)
    report.tell(console)
    assert "1 violations; the seed is 4711" in console.export_text()


@pytest.mark.parametrize("table_format", sorted(TRIALS))
def test_points_are_named_with_the_numbers_of_the_manual(table_format: str) -> None:
    """docs/faults.md has K0 to K8, and the points between them. Only a format without plans has no K2."""
    names = [name_of(point) for point in TRIALS[table_format]().targets.points]
    manual = (Path(__file__).parents[4] / "docs" / "faults.md").read_text()

    assert all(f"| {name} |" in manual for name in names)
    numbers = [name.split()[0] for name in names if name.startswith("K")]
    assert [number for number in numbers if number != "K2"] == ["K0", "K1", *(f"K{number}" for number in range(3, 9))]
    assert ("K2" in numbers) == (table_format in ("hudi", "iceberg"))


# The exit code tells a violation from an error of the harness. The evidence of both is kept.


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


def test_a_folder_with_all_the_evidence_is_kept_only_of_a_violation(folders: Path) -> None:
    """The report is kept if one was asked for."""
    assert run_trial(1, folders / "report.json", playing(Told())) == WHOLE
    assert [path.name for path in folders.iterdir()] == ["report.json"]
    assert run_trial(1, None, playing(Told(["rows"]))) == VIOLATED
    assert list(folders.glob("*/evidence"))


def test_a_harness_that_fails_says_so_and_keeps_what_it_has(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An error of the harness is no verdict, in neither direction."""

    def run(directory: Path, console: Console, interruption: Interruption) -> Told:
        raise KeyError("a mistake of the harness")

    assert run_trial(42, None, run) == HARNESS_FAILED
    assert "a mistake of the harness" in next(folders.glob("*/harness.txt")).read_text()
    assert "the harness has failed, seed 42" in capsys.readouterr().out


# A recovery is over when the struck run has ended and the instants that it left pending are pending no more.


@pytest.fixture
def recovery() -> Recovery:
    """Return one that began at second 10."""
    return Recovery(service=Service.COMPACTION, run="r1", pending={"5"}, injected_at=10.0)


def test_it_is_over_when_both_the_run_and_its_instant_are_done(recovery: Recovery) -> None:
    """Neither of them alone is enough. Later runs and instants do not count."""
    recovery.look(active={"r1"}, pending={"5"}, blocked="", at=11)
    recovery.look(active={"r2"}, pending={"5"}, blocked="", at=12)
    recovery.look(active={"r1"}, pending=set(), blocked="", at=13)
    assert not recovery.over
    recovery.look(active={"r2"}, pending={"6"}, blocked="", at=14)
    assert recovery.seconds == 4
    recovery.look(active={"r1"}, pending={"5"}, blocked="", at=15)
    assert recovery.seconds == 4


def test_what_the_time_went_into_is_told_apart(recovery: Recovery) -> None:
    """The parts are the wait for a heartbeat, the delay after a failure, and the rest."""
    guarded = "instant 5 is guarded by the heartbeat of its executor"
    recovery.look(active={"r1"}, pending={"5"}, blocked=guarded, at=10.5)
    recovery.look(active={"r1"}, pending={"5"}, blocked=guarded, at=11.0)
    recovery.look(active={"r1"}, pending={"5"}, blocked="backing off: a worker died", at=11.75)
    recovery.look(active={"r1"}, pending={"5"}, blocked="", at=12.75)
    assert (recovery.heartbeat, recovery.rest) == (1.0, 0.75)
