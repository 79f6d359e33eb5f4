"""Which instants were completed: by the active timeline, and by an archive that Hudi wrote."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakewarden.planners.formats.hudi.history import completed_instants, first_shown
from lakewarden.planners.formats.hudi.metadata.properties import read_table_properties
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import Instant, InstantKind, State
from lakewarden.planners.storage import storage_for

WRITTEN_BY_HUDI = Path(__file__).parents[5] / "fixtures" / "hudi" / "archives" / "mor_v9"
COMPACTION, DONE = "20261123194032513", "20261123194038538"
"""An archived compaction, and when it was completed."""
NOW = datetime(2026, 11, 24, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Return a copy of the table whose archive Hudi wrote."""
    return Path(shutil.copytree(WRITTEN_BY_HUDI, tmp_path / "orders"))


def history(lake: Path) -> Path:
    return lake / ".hoodie" / "timeline" / "history"


def instant(time: str, action: str = "deltacommit", state: State = State.COMPLETED) -> Instant:
    return Instant(time=time, action=action, stands_for=InstantKind.OTHER, state=state, requested_at=NOW)


def completed(lake: Path, *instants: Instant) -> tuple[str | None, str | None]:
    """Return when the archived compaction was completed, and past what an archive has gone, by an active timeline."""
    storage = storage_for(str(lake))
    found = completed_instants(instants, read_table_properties(str(lake), storage), storage)
    return found.at(COMPACTION), None if found.passed is None else found.passed.time


AFTER = "20261124000000000"
BEFORE = "20261101000000000"


def test_what_precedes_the_active_timeline_was_completed(lake: Path) -> None:
    assert completed(lake, instant(AFTER)) == (COMPACTION, None)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("action", ["clean", "rollback", "restore", "indexing", "whatever comes"])
def test_what_was_archived_after_an_instant_that_stays_was_completed_all_the_same(
    lake: Path, action: str, state: State
) -> None:
    """Hudi takes it for never committed."""
    assert completed(lake, instant(BEFORE, action, state), instant(AFTER)) == (DONE, BEFORE)


def test_a_savepoint_and_its_commit_hide_nothing(lake: Path) -> None:
    saved = (instant(BEFORE), instant(BEFORE, "savepoint"))
    assert first_shown([*saved, instant(AFTER)]) == instant(AFTER)
    assert completed(lake, *saved, instant(AFTER)) == (COMPACTION, None)


def test_what_neither_timeline_shows_was_not_completed(lake: Path) -> None:
    storage = storage_for(str(lake))
    found = completed_instants(
        [instant(BEFORE, "clean", State.REQUESTED)], read_table_properties(str(lake), storage), storage
    )
    assert found.at("20261123194032514") is None
    assert found.at(AFTER) is None


def test_an_archive_that_cannot_be_read_is_no_empty_one(lake: Path) -> None:
    """Nothing is judged without it. The archive of the next writer mends what a killed one has left."""
    for file in history(lake).glob("*.parquet"):
        file.unlink()
    with pytest.raises(TemporaryError, match="archived timeline"):
        completed(lake, instant(BEFORE, "clean"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("_version_", b"two"),
        ("manifest_2", b"{"),
        ("manifest_2", b'{"files": [{"fileName": "../../../../secret.parquet", "fileLen": 8}]}'),
        ("manifest_2", b'{"files": [{"fileName": "20261101000000000_20261101000000000_0.parquet", "fileLen": -1}]}'),
        ("manifest_2", b'{"files": 3}'),
        ("20261123194026069_20261123194043670_0.parquet", b"PAR1" + b"\xff" * 4954 + b"PAR1"),
    ],
)
def test_a_damaged_archive_is_named(lake: Path, name: str, content: bytes) -> None:
    """No name in a manifest leads out of the archive, and no damage passes for an empty archive."""
    (history(lake) / name).write_bytes(content)

    with pytest.raises(TemporaryError, match=r"cannot be read: .*(archive|damaged)"):
        completed(lake, instant(BEFORE, "clean"))


def test_an_archive_outside_its_timeline_is_refused(lake: Path, tmp_path: Path) -> None:
    """Another table may own that place."""
    history(lake).rename(tmp_path / "elsewhere")
    history(lake).symlink_to(tmp_path / "elsewhere")

    with pytest.raises(PermanentError, match="outside its timeline"):
        completed(lake, instant(BEFORE, "clean"))


def test_a_table_that_was_never_archived_has_an_empty_archive(lake: Path) -> None:
    """There is no folder of the archive yet."""
    shutil.rmtree(history(lake))

    assert completed(lake, instant(BEFORE, "clean")) == (None, None)
