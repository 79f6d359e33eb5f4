"""The bench as a command: what can be measured, and how a figure is judged."""

from __future__ import annotations

import importlib

import pytest

from bench.__main__ import LONG, NAMES, main
from bench.figure import figure


@pytest.mark.parametrize("name", NAMES + LONG)
def test_everything_that_has_a_name_can_be_measured(name: str) -> None:
    """Whoever asks for a figure does not learn after minutes that its module does not load."""
    assert callable(importlib.import_module(f"bench.{name}").measure)


def test_a_name_that_is_none_is_refused_with_those_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is measured for a slip of the pen."""
    monkeypatch.setattr("sys.argv", ["bench", "hook_flod"])

    with pytest.raises(SystemExit):
        main()

    assert "there is no hook_flod; there is idle_poll" in capsys.readouterr().err


@pytest.mark.parametrize(("ours", "met"), [(19.9, True), (20, True), (20.1, False)])
def test_a_goal_is_met_up_to_its_bound(ours: float, met: bool) -> None:
    """A latency of just what was promised keeps the promise."""
    assert figure("p99", ours, "ms", judged="ours", goal=("<=", 20)).met is met
