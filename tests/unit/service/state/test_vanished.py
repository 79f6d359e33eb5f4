"""Vanished instants: what had been completed is gone, and no archive can have taken it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.model.instant import Instant, InstantKind, Service, State, Timeline
from lakewarden.service.state.table_registry import has_vanished
from tests.support.values import an_instant


def timeline(*instants: Instant) -> Timeline:
    """Return a timeline with these instants, in order."""
    return Timeline(instants=tuple(sorted(instants, key=lambda instant: instant.time)))


def done(time: int, what: Service | InstantKind = InstantKind.WRITE) -> Instant:
    """Return a completed instant."""
    return an_instant(time=f"{time:03}", stands_for=what)


def pending(time: int, what: Service | InstantKind) -> Instant:
    """Return a plan."""
    return an_instant(time=f"{time:03}", stands_for=what, state=State.INFLIGHT)


@given(
    at=st.integers(1, 20),
    service=st.sampled_from(Service),
    others=st.dictionaries(st.integers(1, 20), st.sampled_from([*Service, *InstantKind]), max_size=8),
)
def test_what_a_service_has_completed_has_not_vanished_whatever_it_is(
    at: int, service: Service, others: dict[int, Service | InstantKind]
) -> None:
    """The first index that was built put its service into quarantine: the table, it said, had been restored."""
    history = (*(done(time, what) for time, what in others.items() if time != at), done(at, service))
    assert not has_vanished(timeline(*history), f"{at:03}", service)


def test_what_is_older_and_still_active_proves_that_it_was_not_archived() -> None:
    """Archives take the oldest first: a newer writer's history cannot hide it."""
    assert has_vanished(timeline(done(10), done(30), done(60)), "040", Service.COMPACTION)


def test_an_old_copy_of_the_table_ends_before_it() -> None:
    """Nothing that is newer is there: an archive keeps the newest."""
    assert has_vanished(timeline(done(10)), "040", Service.COMPACTION)
    assert has_vanished(timeline(), "040", Service.COMPACTION)


def test_a_completed_instant_that_is_pending_again_was_rolled_back_by_hand() -> None:
    """Its completion is gone."""
    assert has_vanished(timeline(done(10), pending(40, Service.COMPACTION)), "040", Service.COMPACTION)


def test_what_an_archive_took_has_not_vanished() -> None:
    """Everything that is active is newer."""
    assert not has_vanished(timeline(done(50), done(60)), "040", Service.COMPACTION)


def test_nothing_is_told_where_instants_leave_in_any_order() -> None:
    """An Iceberg snapshot that expired may be newer than one that a tag keeps."""
    unordered = Timeline(instants=(done(10), done(60)), oldest_leave_first=False)

    assert not has_vanished(unordered, "040", Service.COMPACTION)


def test_a_savepoint_that_an_archive_left_behind_proves_nothing() -> None:
    """It stays while all around it is archived."""
    left = timeline(done(10), done(10, InstantKind.SAVEPOINT), done(50), done(60))

    assert not has_vanished(left, "040", Service.COMPACTION)


def test_cleans_may_be_archived_apart_from_commits() -> None:
    """An old commit proves nothing of a clean; an older clean, or that nothing at all is newer, does."""
    commits = (done(10), done(50))

    assert not has_vanished(timeline(*commits), "020", Service.CLEAN)
    assert has_vanished(timeline(*commits, done(12, Service.CLEAN)), "020", Service.CLEAN)
    assert has_vanished(timeline(*commits), "060", Service.CLEAN)


def test_the_restore_itself_is_nothing_newer() -> None:
    """A table that was restored to a savepoint has only the restore behind it."""
    restored = timeline(done(10), done(10, InstantKind.SAVEPOINT), done(60, InstantKind.RESTORE))

    assert has_vanished(restored, "040", Service.COMPACTION)
