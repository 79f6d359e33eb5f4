"""A pause says what becomes of the runs that are under way."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from lakewarden.cli import main
from lakewarden.cli.options import Code
from lakewarden.planners.model.instant import Service, Step
from lakewarden.service.model.run import RunState
from tests.unit.service.http.conftest import ServedDaemon

RUNS = "/v1/tables/trips/services/compaction/runs"


def held_at(step: Step, served: ServedDaemon) -> ServedDaemon:
    """Begin a compaction that a worker holds at a step."""
    for _ in range(3):
        served.lake.write()
    served.pool.hold(Service.COMPACTION, step)
    served.start()
    served.look()
    served.api.post(RUNS).raise_for_status()
    while not served.pool.under_way:
        time.sleep(0.01)
    return served


@pytest.mark.parametrize(
    ("step", "said", "ending"),
    [
        (Step.EXECUTE, "its present step ends, and its next step is refused", RunState.CANCELLED),
        (Step.COMMIT, "it commits, because its commit was permitted already", RunState.SUCCEEDED),
    ],
)
@pytest.mark.parametrize("named", ["trips", "--all"])
def test_a_pause_says_what_becomes_of_a_run_under_way(
    make_served: Callable[..., ServedDaemon],
    capsys: pytest.CaptureFixture[str],
    step: Step,
    said: str,
    ending: RunState,
    named: str,
) -> None:
    """And that is what becomes of it."""
    served = held_at(step, make_served())
    assert main(["tables", "pause", named, "--reason", "x", "--url", str(served.api.base_url)]) == Code.DONE
    told = capsys.readouterr().out
    assert said in told
    assert ("runs cancel" in told) is (step is not Step.COMMIT)
    served.pool.release()
    assert served.moments.ending().state is ending


def test_a_run_that_waits_for_a_slot_does_nothing_during_a_pause(
    make_served: Callable[..., ServedDaemon], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, too."""
    served = make_served(slots=0)
    served.lake.write()
    served.start()
    served.look()
    served.api.post(RUNS).raise_for_status()
    assert main(["tables", "pause", "trips", "--url", str(served.api.base_url)]) == Code.DONE
    assert "it has not begun" in capsys.readouterr().out


def test_a_pause_without_runs_names_none(served: ServedDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    """One line is enough."""
    assert main(["tables", "pause", "trips", "--url", str(served.api.base_url)]) == Code.DONE
    assert capsys.readouterr().out == "trips is paused: 'lakewarden tables resume trips' ends it\n"
