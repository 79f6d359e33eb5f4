"""The report counts blows by what was hit, and times by what was recovered from."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from faults.deck import POINTS, Strike, Victim
from faults.recovery import Recovery
from faults.report import line_of, name_of, report_of
from faults.rounds import Struck
from lakewarden.demo.report import WriterTally
from lakewarden.executors.faultpoints import Point
from lakewarden.planners.model.instant import Service


def struck(number: int, *, reached: bool = True, seconds: float | None = 4.0, victim: Victim = Victim.JVM) -> Struck:
    strike = Strike(
        number=number,
        service=Service.CLEAN,
        point=Point.EXECUTED,
        victim=victim,
        by_itself=False,
        frozen_seconds=2,
        patient=True,
    )
    whole_at = None if seconds is None else 10 + seconds
    recovery = Recovery(service=Service.CLEAN, run="r1", pending=(), struck_at=10, whole_at=whole_at, heartbeat=1.5)
    return Struck(strike=strike, reached=reached, recovery=recovery)


ROUNDS = [struck(1), struck(2, reached=False, seconds=None), struck(3, seconds=8, victim=Victim.DAEMON)]


def test_a_blow_counts_for_its_point_only_if_that_was_reached(tmp_path: Path) -> None:
    """Whatever was not recovered from has no time."""
    report = report_of(
        ROUNDS,
        seed=7,
        seconds=60,
        violations=["rows: ..."],
        writer=WriterTally(commits=9, failures=0),
        runs={"clean": {"SUCCEEDED": 2}},
        resumed=0,
    )
    report.write(tmp_path / "report.json")
    told = json.loads((tmp_path / "report.json").read_text())
    assert (told["rounds"], told["elsewhere"], told["violations"]) == (3, 1, ["rows: ..."])
    assert told["kills"]["K4 executed"] == 2
    assert sum(told["kills"].values()) == 2
    assert told["by_victim"] == {"daemon": 1, "jvm": 2}
    assert told["recovery_seconds"] == {"p50": 6.0, "max": 8.0}
    assert told["heartbeat_wait_seconds"] == {"p50": 1.5, "max": 1.5}
    assert told["writer"] == {"commits": 9, "failures": 0, "reasons": []}


def test_the_seed_is_printed_with_what_was_found() -> None:
    """So that it can be played again."""
    console = Console(record=True, width=200)
    report = report_of(
        ROUNDS,
        seed=4711,
        seconds=60,
        violations=["rows: one is missing"],
        writer=WriterTally(commits=9, failures=0),
        runs={},
        resumed=0,
    )
    report.tell(console)
    text = console.export_text()
    assert "rows: one is missing" in text
    assert "1 violations; the seed is 4711" in text


def test_a_round_that_was_not_recovered_from_says_so() -> None:
    """On its line, in capitals, if it was waited for."""
    assert "NOT WHOLE YET" in line_of(ROUNDS[1], of=3)
    assert "elsewhere" in line_of(ROUNDS[1], of=3)
    assert "whole after 4.0 s (1.5 s for a heartbeat)" in line_of(ROUNDS[0], of=3)


def test_points_are_named_with_the_numbers_of_the_manual() -> None:
    """docs/faults.md: K0 to K8, and those between two of them without a number."""
    names = [name_of(point) for point in POINTS]
    manual = (Path(__file__).parents[3] / "docs" / "faults.md").read_text()

    assert all(f"| {name} |" in manual for name in names)
    assert [name.split()[0] for name in names if name.startswith("K")] == [f"K{number}" for number in range(9)]
