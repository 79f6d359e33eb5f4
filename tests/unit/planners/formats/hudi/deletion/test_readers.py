"""Incremental readers that are declared: where they are, what they need, and what is held back for them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.backlog.neglected import uncleaned
from lakewarden.planners.formats.hudi.deletion.readers import needed_by
from lakewarden.planners.formats.hudi.options.service_options import ArchiveOptions, CleanOptions, CleanPolicy
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions, IncrementalReader
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import InstantKind, Service, Timeline
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.model.view import ReaderPosition, TableView
from lakewarden.planners.storage import storage_for
from lakewarden.planners.triggers import NumCommits
from tests.support.hudi.hudi_look import made
from tests.support.hudi.hudi_table import HudiTable
from tests.support.values import NOW, an_instant


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> HudiTable:
    return made(tmp_path, version=request.param)


def _registered(table: HudiTable, *readers: dict[str, Any], clean: CleanPolicy | None = None) -> Table:
    options = HudiTableOptions.model_validate({"writers": "none", "readers": readers})
    policy = Policy(trigger=NumCommits(at_least=1), options=CleanOptions(policy=clean) if clean else None)
    policies = {
        Service.CLEAN: policy,
        Service.ARCHIVE: Policy(trigger=NumCommits(at_least=1), options=ArchiveOptions()),
    }
    location = str(table.folder)
    return Table(id=TableId("trips"), format="hudi", location=location, options=options, policies=policies)


def _look(table: HudiTable, *readers: dict[str, Any]) -> TableView:
    wanted = _registered(table, *readers)
    return HUDI.observe(wanted, storage_for(wanted.location), None, now=table.clock.now()).view


def _ended(table: HudiTable, time: str) -> str:
    """Return how readers count a commit: by its completion time, below version 8 by its requested time."""
    [name] = [path.name for path in table.timeline.glob(f"{time}*.deltacommit")]
    return name.partition(".")[0].rpartition("_")[2]


def _checkpoint(folder: Path, offsets: dict[int, str], *, done: int) -> Path:
    for part in ("offsets", "commits"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for batch, line in offsets.items():
        (folder / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{line}')
        (folder / "offsets" / f".{batch}.crc").write_bytes(b"crc")
    for batch in range(done):
        (folder / "commits" / str(batch)).write_text("v1\n{}")
    return folder


def test_a_checkpoint_tells_where_the_last_batch_ended_that_was_done(table: HudiTable, tmp_path: Path) -> None:
    """A batch that was planned and not completed is read again, so its commits are still needed."""
    first, second, third = table.write({}), table.write({}), table.write({})
    offsets = {0: f'{{"offsetCommitTime":"{_ended(table, first)}"}}', 1: f'{{"commitTime":"{_ended(table, second)}"}}'}
    folder = _checkpoint(tmp_path / "checkpoint", offsets, done=1)
    reader = {"name": "stream", "checkpoint": str(folder)}
    [found] = _look(table, reader).readers
    assert (found.at, found.behind, found.needs) == (_ended(table, first), 2, second)

    _checkpoint(folder, {}, done=2)
    [found] = _look(table, reader).readers
    assert (found.behind, found.needs) == (1, third)


def test_a_query_that_has_done_no_batch_needs_everything(table: HudiTable, tmp_path: Path) -> None:
    """Its first batch may begin anywhere."""
    first = table.write({})
    table.write({})
    folder = _checkpoint(tmp_path / "checkpoint", {0: '{"offsetCommitTime":"20990101000000000"}'}, done=0)
    [found] = _look(table, {"name": "stream", "checkpoint": str(folder)}).readers
    assert (found.at, found.behind, found.needs) == ("the beginning", 2, first)


def test_of_several_sources_the_slowest_counts(table: HudiTable, tmp_path: Path) -> None:
    """The checkpoint does not say which source is this table. A source of another kind says nothing."""
    first, second = table.write({}), table.write({})
    lines = [f'{{"offsetCommitTime":"{_ended(table, one)}"}}' for one in (second, first)]
    folder = _checkpoint(tmp_path / "checkpoint", {0: "\n".join([*lines, '{"topic":{"0":12}}', "-"])}, done=1)
    [found] = _look(table, {"name": "stream", "checkpoint": str(folder)}).readers
    assert found.needs == second


def test_a_lag_is_counted_by_the_clock(table: HudiTable) -> None:
    """A reader that has read everything needs the newest commit, at which its next query begins."""
    old, young = table.write({}), None
    table.clock.advance(timedelta(hours=3))
    young = table.write({})
    [found] = _look(table, {"name": "export", "longest_lag": "1h"}).readers
    assert (found.behind, found.needs) == (1, young)
    [found] = _look(table, {"name": "export", "longest_lag": "4h"}).readers
    assert (found.behind, found.needs) == (2, old)
    table.clock.advance(timedelta(days=1))
    [found] = _look(table, {"name": "export", "longest_lag": "1h"}).readers
    assert (found.behind, found.unread_since, found.needs) == (0, None, young)


@pytest.mark.parametrize("broken", ["no folder", "no batch", "half an offset", "another source", "no instant"])
def test_a_position_that_cannot_be_read_holds_back_clean_and_archive_by_name(
    table: HudiTable, tmp_path: Path, broken: str
) -> None:
    """Nothing is guessed about the reader's needs."""
    table.write({})
    reader = {"name": "stream", "checkpoint": str(tmp_path / "checkpoint")}
    if broken == "no instant":
        (tmp_path / "position").write_text("yesterday")
        reader = {"name": "stream", "position": str(tmp_path / "position")}
    elif broken != "no folder":
        line = {"half an offset": '{"offsetCommitT', "another source": '{"topic":{"0":12}}'}.get(broken)
        _checkpoint(tmp_path / "checkpoint", {} if line is None else {0: line}, done=1)
    view = _look(table, reader)

    held = {
        service
        for service in Service
        for why in view.blockers
        if "reader stream" in why.reason and why.concerns(service)
    }
    assert held == {Service.CLEAN, Service.ARCHIVE}
    with pytest.raises(TemporaryError, match="the position of reader stream cannot be read"):
        needed_by(view.readers)


def test_a_position_is_looked_at_although_the_timeline_stands_still(table: HudiTable, tmp_path: Path) -> None:
    """Where readers are declared, a view is kept for at most a minute, and says where they are."""
    time = table.write({})
    (tmp_path / "position").write_text(f"{_ended(table, time)}\n")
    wanted = _registered(table, {"name": "export", "position": str(tmp_path / "position")})
    table.clock.advance(timedelta(minutes=5))
    seen = HUDI.observe(wanted, storage_for(wanted.location), None, now=table.clock.now())
    assert seen.keep_until == table.clock.now() + timedelta(minutes=1)
    assert seen.view.notes[Service.CLEAN] == (
        f"reader export is at {_ended(table, time)}: 0 commits are unread, and everything since {time} stays",
    )


@given(commits=st.integers(1, 30), needs=st.integers(0, 29), kept=st.integers(1, 30))
def test_a_clean_keeps_what_the_slowest_reader_needs(commits: int, needs: int, kept: int) -> None:
    """It keeps everything from its oldest unread commit on, or what the policy says, whichever is more."""
    times = [f"202611220000{n:05}" for n in range(commits)]
    timeline = Timeline(
        instants=tuple(an_instant(time=one, action="deltacommit", stands_for=InstantKind.WRITE) for one in times)
    )
    needed = times[min(needs, commits - 1)]
    readers = (ReaderPosition(name="b", needs=times[-1]), ReaderPosition(name="a", needs=needed))
    slowest = needed_by(readers)
    assert slowest is not None
    found = uncleaned(timeline, CleanOptions(commits_retained=kept), retained=None, now=NOW, needed=slowest.needs)
    assert found is not None
    staying = times[commits - min(found.kept, commits) :]
    assert needed in staying
    assert len(staying) >= min(kept, commits)


def test_readers_whose_needs_cannot_be_kept_are_refused(tmp_path: Path) -> None:
    """A clean that counts versions keeps no commit. A store that is not read says nothing."""
    table = made(tmp_path)
    lag, elsewhere = {"name": "a", "longest_lag": "1d"}, {"name": "b", "checkpoint": "s3a://other/checkpoint"}

    def reasons(*readers: dict[str, Any], clean: CleanPolicy = CleanPolicy.KEEP_LATEST_COMMITS) -> list[str]:
        found = HUDI.contradictions(_registered(table, *readers, clean=clean))
        return [one.reason for one in found if one.key == "options.readers"]

    assert reasons(lag) == []
    assert "keeps no commit for a reader" in reasons(lag, clean=CleanPolicy.KEEP_LATEST_FILE_VERSIONS)[0]
    assert "two readers have the name a" in reasons(lag, lag)[0]
    assert "another store" in reasons(elsewhere)[0]
    for wrong in ({"name": "a"}, {"name": "a", "longest_lag": "1d", "position": "/p"}, {"name": "", "position": "/p"}):
        with pytest.raises(ValidationError):
            IncrementalReader.model_validate(wrong)


@pytest.mark.parametrize("place", ["data/positions", "s3://", "/data/*", "http://u:p@x/y"])
def test_a_position_that_lies_nowhere_is_refused_where_it_is_written(place: str) -> None:
    """Otherwise an observation would find out, and hold the table back."""
    for key in ("checkpoint", "position"):
        with pytest.raises(ValidationError):
            IncrementalReader.model_validate({"name": "bi", key: place})
