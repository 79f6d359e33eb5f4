"""`lakewarden inspect` on a plain directory, which only a word of the caller tells from another folder."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.planners.model.clock import ManualClock
from lakewarden.service.reporting.inspect import inspect_path
from tests.support.directory.directories import put

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path / "trips/dt=2026-03-01/hr=01/part-1", NOW - timedelta(hours=3))
    put(tmp_path / "trips/dt=2026-03-01/hr=02/.part-1.inprogress.7", NOW)
    return tmp_path / "trips"


def inspected(folder: Path, *, format_name: str | None, as_json: bool = False) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    clock = ManualClock(NOW)
    code = inspect_path(folder, as_json=as_json, out=out, err=err, format_name=format_name, clock=clock)
    return code, out.getvalue(), err.getvalue()


def test_a_directory_is_shown_to_people_by_its_partitions(folder: Path) -> None:
    """The part in progress stands among the newest instants."""
    code, said, _ = inspected(folder, format_name="directory")
    assert code == 0
    assert "2 partitions (1 active, 1 to be committed), 1 files, 4B" in " ".join(said.split())
    assert "part_in_progress" in said


def test_the_json_of_a_directory_has_the_keys_of_every_format(folder: Path) -> None:
    """A program reads one shape."""
    _, said, _ = inspected(folder, format_name="directory", as_json=True)
    report = json.loads(said)
    assert (report["format"], report["table_version"], report["blockers"]) == ("directory", "none", [])
    assert [instant["state"] for instant in report["instants"]] == ["COMPLETED", "INFLIGHT"]


def test_no_folder_is_taken_for_a_directory_without_the_word(folder: Path) -> None:
    """Every folder of files would be one, that of a damaged table too."""
    code, said, error = inspected(folder, format_name=None)
    assert (code, said) == (2, "")
    assert "no Hudi table" in error


def test_a_format_that_is_not_there_is_named_with_those_that_are(folder: Path) -> None:
    """A typing error is found at once."""
    code, _, error = inspected(folder, format_name="directories")
    assert code == 2
    assert "'directories' is no format: it is one of hudi, iceberg" in error
