"""The witness records the beginning and the end of each step, if a test asks for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakewarden.executors.contract import Assignment, Plan
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import TableId
from tests.support.doubles.witness import Witness

ASSIGNMENT = Assignment(
    run=RunId("r1"), epoch=3, table=TableId("orders"), format="hudi", location="/t", service=Service.COMPACTION
)


def test_a_step_is_told_with_its_run_its_epoch_and_its_instant(tmp_path: Path) -> None:
    """One line when it begins, one when it ends."""
    witness = Witness(file=tmp_path / "witness", clock=ManualClock())
    with witness.sees(Step.EXECUTE, Plan(instant="5"), ASSIGNMENT):
        pass
    begin, end = [json.loads(line) for line in (tmp_path / "witness").read_text().splitlines()]
    assert (begin["what"], begin["run"], begin["epoch"], begin["instant"]) == ("begin", "r1", 3, "5")
    assert (end["what"], end["run"], end["step"]) == ("end", "r1", "execute")


def test_a_step_that_fails_has_ended(tmp_path: Path) -> None:
    """Only a step that a kill cut off has no end."""
    witness = Witness(file=tmp_path / "witness", clock=ManualClock())
    with pytest.raises(ValueError, match="no"), witness.sees(Step.COMMIT, Plan(instant="5"), ASSIGNMENT):
        raise ValueError("no")
    assert [json.loads(line)["what"] for line in (tmp_path / "witness").read_text().splitlines()] == ["begin", "end"]


def test_without_a_file_nothing_is_told(tmp_path: Path) -> None:
    """In production there is none."""
    with Witness().sees(Step.EXECUTE, Plan(instant="5"), ASSIGNMENT):
        Witness().tell("anything")
    assert not list(tmp_path.iterdir())
