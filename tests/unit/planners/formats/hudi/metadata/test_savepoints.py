"""Savepoints on a schedule: what is saved, who made a savepoint, which of ours are removed, and what one holds back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi.metadata.names import Layout, collapse
from lakewarden.planners.formats.hudi.metadata.properties import read_table_properties
from lakewarden.planners.formats.hudi.metadata.savepoints import (
    MARK,
    USER,
    Savepoint,
    author_of,
    comment,
    expired,
    read_savepoints,
    retained_since,
    savable,
)
from lakewarden.planners.formats.hudi.options.service_options import SavepointOptions
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import InstantKind, RunId, Service
from lakewarden.planners.ports import FileEntry
from lakewarden.planners.storage import LocalStorage
from tests.support.hudi.hudi_look import look, made
from tests.support.hudi.hudi_table import HudiTable

NOW = datetime(2026, 11, 22, tzinfo=UTC)
SAVEPOINTS = st.lists(
    st.builds(
        lambda time, run, days: Savepoint(time=time, by=USER, at=NOW - timedelta(days=days), run=run),
        st.integers(10**16, 10**16 + 50).map(str),
        st.sampled_from([RunId("r"), None]),
        st.integers(0, 20),
    ),
    unique_by=lambda one: one.time,
)
OPTIONS = st.builds(
    lambda days, most: SavepointOptions.model_validate({"expire_after": f"{days}d", "savepoints_retained": most}),
    st.integers(1, 10),
    st.none() | st.integers(1, 10),
)


@given(savepoints=SAVEPOINTS, options=OPTIONS)
def test_a_persons_savepoint_never_goes_and_the_newest_of_ours_stays(
    savepoints: list[Savepoint], options: SavepointOptions
) -> None:
    """This holds at any age and for any number. Our expired savepoints are removed, except the newest."""
    gone = expired(savepoints, options, now=NOW)

    ours = sorted((one for one in savepoints if one.run), key=lambda one: one.time)
    assert all(one.run for one in gone)
    assert not ours or ours[-1] not in gone
    staying = [one for one in ours if one not in gone]
    assert options.savepoints_retained is None or len(staying) <= options.savepoints_retained
    assert all(NOW - one.at < options.expire_after for one in staying[:-1])


@given(by=st.sampled_from([USER, "ann", ""]), said=st.text() | st.just(comment("r1")), more=st.text(max_size=2))
def test_only_what_is_signed_is_ours(by: str, said: str, more: str) -> None:
    """The user and the whole comment count: an operator may write about Lakewarden."""
    found = author_of({"savepointedBy": by, "comments": said + more})
    assert (found == "r1") == (by == USER and said + more == comment("r1"))


def _file(name: str) -> FileEntry:
    return FileEntry(name=name, size=0, modified=NOW)


@given(pending=st.integers(0, 9), commits=st.frozensets(st.integers(0, 9), min_size=1), retained=st.integers(0, 9))
def test_what_is_saved_is_older_than_what_is_in_flight_and_was_not_cleaned(
    pending: int, commits: frozenset[int], retained: int
) -> None:
    """It is the newest such commit, if there is one."""
    times = [f"2026112200000000{n}" for n in range(10)]
    names = [f"{times[n]}_{times[n]}.deltacommit" for n in commits - {pending}]
    instants = collapse([_file(name) for name in (*names, f"{times[pending]}.compaction.requested")], Layout.V2)

    found = savable(instants, retained=times[retained]).commit

    before = [n for n in commits if n < pending]
    assert found == (times[max(before)] if before and max(before) >= retained else None)


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> HudiTable:
    return made(tmp_path, version=request.param)


def _read(table: HudiTable) -> Any:
    storage = LocalStorage()
    properties = read_table_properties(str(table.folder), storage)
    instants = collapse(storage.listing(properties.timeline_folder), properties.layout)
    return instants, properties, storage


def test_a_savepoint_says_who_made_it_and_when(table: HudiTable) -> None:
    """Its own metadata says it. If that cannot be read, the savepoint is not judged."""
    first, second = table.write({}), table.write({})
    table.savepoint(first, by="ann", comments="mine")
    table.savepoint(second, by=USER, comments=comment("r1"))
    found = read_savepoints(*_read(table))
    assert [(one.time, one.by, one.run) for one in found] == [(first, "ann", None), (second, USER, "r1")]
    assert all(abs(one.at - table.clock.now()) < timedelta(seconds=5) for one in found)

    table.savepoint(table.write({}))
    newest = max(table.timeline.glob("*.savepoint"))
    newest.write_bytes(newest.read_bytes()[:40])
    with pytest.raises(TemporaryError, match=r"savepoint cannot be read"):
        read_savepoints(*_read(table))


def test_a_clean_tells_from_where_on_commits_can_be_saved(table: HudiTable) -> None:
    """A clean by file versions does not say it. It left what the newest commit before it shows."""
    assert retained_since(*_read(table)) is None
    first, second = table.write({}), table.write({})
    table.complete_clean(table.plan_clean(), seen=second, retained=first)
    assert retained_since(*_read(table)) == first
    table.complete_clean(table.plan_clean(), seen=second)
    assert retained_since(*_read(table)) == second


def test_the_backlog_counts_from_our_last_savepoint(table: HudiTable) -> None:
    """An operator's savepoint does not delay ours."""
    saved = table.write({})
    table.savepoint(saved, by=USER, comments=comment("r1"))
    table.savepoint(table.write({}))
    table.write({})
    view = look(table, Service.SAVEPOINT).view
    assert view.backlogs[Service.SAVEPOINT].commits == 2
    assert [one.author for one in view.timeline.instants if one.stands_for is InstantKind.SAVEPOINT] == ["r1", None]


def test_what_a_run_left_half_way_holds_back_others_and_is_due(table: HudiTable) -> None:
    """Our mark beside the table names it. Without the mark it may be an operator's, and everything waits."""
    time = table.write({})
    table.put(f"{time}.savepoint.inflight")
    view = look(table, Service.SAVEPOINT).view
    assert all(any(one.concerns(service) for one in view.blockers) for service in Service)

    mark = table.home / MARK
    mark.parent.mkdir(exist_ok=True)
    mark.write_text(time)
    view = look(table, Service.SAVEPOINT).view
    assert [one for one in Service if not any(why.concerns(one) for why in view.blockers)] == [Service.SAVEPOINT]
    assert view.backlogs[Service.SAVEPOINT].unfinished == f"savepoint {time} was left unfinished"
    mark.write_bytes(b"9" * 100)
    assert any(one.concerns(Service.SAVEPOINT) for one in look(table, Service.SAVEPOINT).view.blockers)


def test_a_pending_clean_goes_before_a_savepoint(table: HudiTable) -> None:
    """That is reported only where savepoints are asked for."""
    table.write({})
    clean = table.plan_clean(files={"p0": ("a-0_0-1-2_20260101000000000.parquet",)})
    asked, other = look(table, Service.SAVEPOINT).view, look(table, Service.ARCHIVE).view
    assert any(f"clean {clean} is pending" in one.reason for one in asked.blockers)
    assert not any("is pending" in one.reason for one in other.blockers)


def test_the_oldest_savepoint_says_how_much_of_the_timeline_it_holds(table: HudiTable) -> None:
    """It says how many commits it holds, how old it is, and whether it will be removed by itself."""
    table.write({})
    assert look(table).view.timeline.held_by_savepoint() == ()
    saved = table.write({})
    table.savepoint(saved)
    for _ in range(3):
        table.write({})
    view = look(table).view
    savepoint, *commits = view.timeline.held_by_savepoint()
    assert (savepoint.time, len(commits)) == (saved, 3)
    [note] = view.notes[Service.SAVEPOINT]
    assert note.startswith(f"savepoint {saved} of {savepoint.requested_at:%Y-%m-%d %H:%M} UTC holds the 3 commits")
    assert "a person's" in note
    assert note in view.notes[Service.ARCHIVE]
