"""What incremental readers still need: the snapshot at which each may stand, and all of main after it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.deletion.expiry import Expiry, expirable
from lakewarden.planners.formats.iceberg.deletion.reachable import NoSuchBranchError, misread, positions
from lakewarden.planners.formats.iceberg.metadata.metadata import MAIN, Snapshot, TableMetadata
from lakewarden.planners.formats.iceberg.options.service_options import CleanOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions, IncrementalReader
from tests.support.iceberg.iceberg_history import DAY, History, histories
from tests.support.values import NOW

NOTHING_ELSE: dict[str, Any] = {"longest_outage": "0s", "flink_restores": "0s", "keep_last_flink_commit": False}
OPERATIONS = ("append", "append", "replace", "overwrite", "delete")


def reader(lag: str, **said: Any) -> IncrementalReader:
    """Return a reader that its owner declares."""
    return IncrementalReader.model_validate({"name": "export", "longest_lag": lag, **said})


def expiry(metadata: TableMetadata, *readers: IncrementalReader, now: datetime = NOW) -> Expiry:
    """Return what may expire of a table that keeps as little as it may, but for its readers."""
    table = IcebergTableOptions(readers=readers, **NOTHING_ELSE)
    return expirable(metadata, CleanOptions.model_validate({"max_snapshot_age": "0s"}), table, now)


def daily(*operations: str) -> TableMetadata:
    """Return a table whose main got these snapshots, one a day, the last of them an hour ago."""
    history = History(at=NOW - timedelta(hours=1) - DAY * (len(operations) - 1))
    for at, operation in enumerate(operations):
        history.commit()
        history.snapshots[at] = replace(history.snapshots[at], operation=operation)
        history.at += DAY
    return history.metadata()


def stands_at(main: list[Snapshot], back: int, kind: str) -> Snapshot | None:
    """Return where a reader stands that has read main but for its newest snapshots. This is how readers go on, told
    without our code: a scan stops at the snapshot that was the newest, a stream at the last append that it has read.
    """
    seen = main[back:]
    return next((one for one in seen if kind == "scan" or one.operation == "append"), None)


@st.composite
def mixed(draw: st.DrawFn) -> History:
    """Draw a history of which some snapshots are no appends."""
    history = draw(histories(flink=False))
    history.snapshots = [replace(one, operation=draw(st.sampled_from(OPERATIONS))) for one in history.snapshots]
    return history


BRANCHES = st.sampled_from([MAIN, "audit", "dev"])


def snapshots_of(metadata: TableMetadata, branch: str) -> list[Snapshot] | None:
    """Return the snapshots of a branch, the newest first; None if there is no such branch."""
    heads = {ref.name: ref.snapshot for ref in metadata.refs if ref.is_branch}
    return list(metadata.ancestors(heads[branch])) if branch in heads else None


@given(
    history=mixed(), lag=st.sampled_from(["1h", "2d", "9d"]), kind=st.sampled_from(["stream", "scan"]), name=BRANCHES
)
def test_a_reader_that_is_no_further_behind_than_declared_finds_its_snapshot_and_all_after_it(
    history: History, lag: str, kind: str, name: str
) -> None:
    """Wherever it stands, if it has read all of its branch that is older than its lag. Nothing on the way to the head
    is missing: a reader follows parents.
    """
    metadata, declared = history.metadata(), reader(lag, kind=kind, branch=name)
    branch = snapshots_of(metadata, name)
    if branch is None:
        return
    left = [one for one in branch if one.id not in expiry(metadata, declared).ids]
    for back in range(len(branch)):
        if any(one.at < NOW - declared.longest_lag for one in branch[:back]):
            break  # it is further behind
        stands = stands_at(branch, back, kind)
        if stands is not None:
            assert left[: branch.index(stands) + 1] == branch[: branch.index(stands) + 1]


@given(history=mixed(), lag=st.sampled_from(["1h", "2d"]), name=BRANCHES)
def test_a_reader_keeps_nothing_of_other_branches(history: History, lag: str, name: str) -> None:
    """Off its own branch as much expires as without it."""
    metadata = history.metadata()
    branch = snapshots_of(metadata, name)
    if branch is not None:
        own = {one.id for one in branch}
        assert set(expiry(metadata).ids) - own == set(expiry(metadata, reader(lag, branch=name)).ids) - own


def audited() -> History:
    """Return a table with five daily appends on main, and five later ones on the branch audit."""
    history = History(at=NOW - 9 * DAY)
    for number in range(10):
        history.commit(MAIN if number < 5 else "audit")
        history.at += DAY
    return history


def test_a_branch_with_a_reader_outlives_its_age() -> None:
    """Without the reader it expires with all its snapshots. Tags expire as before."""
    history = audited()
    history.refs["audit"] = replace(history.refs["audit"], max_ref_age=timedelta(milliseconds=1))
    metadata = history.metadata()
    later = NOW + DAY
    assert [one.name for one in expiry(metadata, now=later).refs] == ["audit"]

    found = expiry(metadata, reader("3d", kind="scan", branch="audit"), now=later)
    assert found.refs == ()
    assert found.ids == (1, 2, 3, 4, 6)
    assert any("reader export is declared on it" in one for one in found.kept)
    assert any("all of the branch 'audit' since snapshot 7 stays" in one for one in found.kept)


def test_a_reader_on_a_branch_that_is_not_there_lets_nothing_expire() -> None:
    """A name with a mistake in it would protect nothing. Its position says why. A tag is no branch."""
    history = audited()
    history.point("dev", 3, is_branch=False)
    metadata = history.metadata()
    for name in ("adit", "dev"):
        declared = reader("3d", branch=name)
        with pytest.raises(NoSuchBranchError, match=f"reader export .* the branch '{name}'.* has no such branch: corr"):
            expiry(metadata, declared)
        (position,) = positions([declared], metadata, NOW)
        assert (position.unreadable or "").endswith("or remove the reader if the branch was dropped")


def test_the_position_of_a_reader_counts_what_its_branch_got() -> None:
    """These are the writes of the branch since the lag, with those that it shares with main."""
    metadata = audited().metadata()
    (position,) = positions([reader("3d", kind="scan", branch="audit")], metadata, NOW)
    assert (position.behind, position.needs) == (4, "6")


@given(history=mixed(), lag=st.sampled_from(["1h", "2d"]), kind=st.sampled_from(["stream", "scan"]))
def test_it_is_known_when_the_next_snapshot_of_a_reader_may_expire(history: History, lag: str, kind: str) -> None:
    """An observation is not kept for longer than that, and not asked for before."""
    metadata, declared = history.metadata(), reader(lag, kind=kind)
    found = expiry(metadata, declared)
    later = NOW + 36_500 * DAY if found.next_at is None else found.next_at
    assert (set(expiry(metadata, declared, now=later).ids) > set(found.ids)) == (found.next_at is not None)


def test_the_last_snapshot_before_the_lag_stays_for_a_reader_stands_at_it() -> None:
    """An incremental read begins after a snapshot that has to be there."""
    metadata = daily(*["append"] * 6)
    assert expiry(metadata).ids == (1, 2, 3, 4, 5)
    assert expiry(metadata, reader("2d", kind="scan")).ids == (1, 2, 3)
    assert expiry(metadata, reader("2d")).ids == (1, 2, 3)


def test_a_stream_that_waits_at_an_old_append_is_not_behind() -> None:
    """It passes rewrites by, and writes down none of them: its append has to stay, however old it is."""
    metadata = daily("append", "append", "replace", "replace", "replace", "overwrite")
    assert expiry(metadata, reader("2d")).ids == (1,)
    assert expiry(metadata, reader("2d", kind="scan")).ids == (1, 2, 3)


def test_a_stream_that_never_saw_an_append_stands_at_the_oldest_snapshot() -> None:
    """Where no append is known that it can have passed to, main stays whole. A reader that is no stream says so."""
    metadata = daily(*["overwrite"] * 5)
    assert expiry(metadata, reader("1d")).ids == ()
    assert expiry(metadata, reader("1d")).next_at is None
    assert expiry(metadata, reader("1d", kind="scan")).ids == (1, 2, 3)


def test_the_slowest_of_several_readers_counts_and_each_is_named() -> None:
    """An operator sees for which reader so much stays, and since which snapshot."""
    metadata = daily(*["append"] * 6)
    slow, fast = reader("3d"), reader("1d", name="stream-1", kind="scan")
    found = expiry(metadata, slow, fast)
    assert found.ids == expiry(metadata, slow).ids == (1, 2)
    assert found.kept == (
        "3 snapshots are needed by reader export (a stream, at most 3d behind): all of main since snapshot 3 stays",
        "1 snapshot is needed by reader stream-1 (a scan, at most 1d behind): all of main since snapshot 5 stays",
    )


def test_what_a_longest_outage_keeps_is_not_counted_twice() -> None:
    """One sentence for each reason."""
    metadata = daily(*["append"] * 6)
    table = IcebergTableOptions.model_validate(
        {**NOTHING_ELSE, "longest_outage": "2d", "readers": [{"name": "export", "longest_lag": "3d"}]}
    )
    found = expirable(metadata, CleanOptions.model_validate({"max_snapshot_age": "0s"}), table, NOW)
    assert found.kept == (
        "1 snapshot is younger than longest_outage (2d)",
        "2 snapshots are needed by reader export (a stream, at most 3d behind): all of main since snapshot 3 stays",
    )


def test_a_view_says_how_much_each_reader_may_not_have_read() -> None:
    """Rewrites are no commits that anything has to read."""
    metadata = daily("append", "append", "append", "replace", "append")
    [found] = positions([reader("2d")], metadata, NOW)
    assert (found.name, found.at, found.behind, found.needs) == ("export", "2d back at most", 1, "3")
    assert found.unread_since == NOW - timedelta(hours=1)
    [none] = positions([reader("2d")], History().metadata(), NOW)
    assert (none.behind, none.unread_since, none.needs) == (0, None, None)


def test_two_readers_with_one_name_are_refused() -> None:
    """Messages and metrics would not tell them apart."""
    assert misread([reader("1d"), reader("2d", name="other")]) is None
    assert misread([reader("1d"), reader("2d")]) == "two readers have the name export"
