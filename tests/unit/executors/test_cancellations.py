"""Which runs were cancelled, for programs that do their work outside of Spark's jobs."""

from __future__ import annotations

import pytest

from lakewarden.executors import points
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId


def test_a_run_is_wanted_until_it_is_cancelled_and_forgotten_at_its_end() -> None:
    """A later run of the same name would not be cancelled."""
    run, other = RunId("one"), RunId("other")
    points.note(run)
    with pytest.raises(TemporaryError, match="cancelled"):
        points.require_wanted(run)
    points.require_wanted(other)
    points.forget(run)
    points.require_wanted(run)
