"""How far Lakewarden's commits keep from writers that change rows, and when they stop because such a writer fell
silent.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.writers.cold import awaited, kept_off, next_silence, silenced
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.instant import Instant, RunId, Service, Step, Timeline
from lakewarden.planners.model.view import Touch, WriterActivity
from tests.support.values import NOW, a_view, an_instant

OPTIONS = IcebergTableOptions()
SECOND = timedelta(seconds=1)
EVERY_TWO = 2 * SECOND


def ours(ago: timedelta, service: Service = Service.COMPACTION, *, author: str | None = "r1") -> Instant:
    """Return a commit of Lakewarden so long ago, or of another author if it has none."""
    run = None if author is None else RunId(author)
    return an_instant(
        time=f"{10**6 - ago.total_seconds():09.0f}", stands_for=service, requested_at=NOW - ago, author=run
    )


def changed(ago: timedelta, *, every: timedelta | None = EVERY_TWO) -> WriterActivity:
    """Return the activity of a writer that last changed rows so long ago."""
    touch = Touch(at=NOW - ago, instant="1", updates=True)
    return WriterActivity(updated={"p=0": touch}, update_interval=every)


def kept(*instants: Instant, activity: WriterActivity) -> dict[Service, NotDue]:
    """Return the services that are held off now."""
    return dict(kept_off(Timeline(instants=instants), activity, OPTIONS, NOW))


def test_our_commits_keep_a_distance_beside_a_writer_that_changes_rows() -> None:
    """The distance is thirty seconds from the last commit of any service. Clean and orphans need none."""
    found = kept(ours(12 * SECOND, Service.ARCHIVE), activity=changed(SECOND))

    assert set(found) == {Service.COMPACTION, Service.CLUSTERING, Service.ARCHIVE, Service.TABLE_STATS}
    assert found[Service.ARCHIVE].again_at == NOW + 18 * SECOND
    assert found[Service.ARCHIVE].reason == (
        "Lakewarden committed last at 11:59:48 UTC: beside writers that MERGE, UPDATE or DELETE its commits keep a "
        "distance of 30s"
    )
    assert kept(ours(30 * SECOND), activity=changed(SECOND)) == {}
    assert kept(ours(SECOND, Service.CLEAN), activity=changed(SECOND)) == {}


@pytest.mark.parametrize(
    "activity",
    [
        WriterActivity(),
        WriterActivity(updated={}),
        changed(timedelta(minutes=1)),
        changed(timedelta(minutes=11), every=timedelta(minutes=1)),
    ],
)
def test_without_such_a_writer_there_is_no_distance(activity: WriterActivity) -> None:
    """There never was such a writer, or the last one has been gone for ten of its intervals and a minute."""
    assert kept(ours(12 * SECOND), activity=activity) == {}


def test_commits_of_others_are_none_of_ours() -> None:
    """Lakewarden does not answer for another client's compaction."""
    assert kept(ours(12 * SECOND, author=None), activity=changed(13 * SECOND)) == {}


def test_rewrites_rest_when_a_writer_fell_silent_after_one() -> None:
    """They stop after five of the writer's intervals without a commit, for ten times as long. The archive continues."""
    found = kept(ours(40 * SECOND), activity=changed(41 * SECOND))

    assert set(found) == {Service.COMPACTION, Service.CLUSTERING}
    assert found[Service.COMPACTION].again_at == NOW + 60 * SECOND
    assert found[Service.COMPACTION].reason == (
        "a writer that changed rows every 2s has not committed since Lakewarden's compaction at 11:59:20 UTC: "
        "rewrites rest until it has, or until 12:01:00 UTC"
    )
    assert kept(ours(100 * SECOND), activity=changed(101 * SECOND)) == {}


@pytest.mark.parametrize(
    ("instants", "activity"),
    [
        ((ours(40 * SECOND),), changed(39 * SECOND)),
        ((ours(40 * SECOND),), changed(41 * SECOND, every=None)),
        ((ours(40 * SECOND),), changed(51 * SECOND)),
        ((ours(40 * SECOND, Service.ARCHIVE),), changed(41 * SECOND)),
        ((), changed(41 * SECOND)),
    ],
    ids=["has committed since", "has no cadence", "was silent before", "after an archive", "nothing of ours"],
)
def test_a_silence_that_we_did_not_cause_is_none(instants: tuple[Instant, ...], activity: WriterActivity) -> None:
    """Only a rewrite of data files can make such a writer fail, and only if the writer was still there."""
    assert silenced(Timeline(instants=instants), activity) is None


def test_a_later_rewrite_does_not_begin_the_silence_anew() -> None:
    """Otherwise the silence would never be noticed if the distance is shorter than five of the writer's intervals."""
    activity = changed(61 * SECOND, every=10 * SECOND)
    silence = silenced(Timeline(instants=(ours(60 * SECOND), ours(20 * SECOND))), activity)

    assert silence is not None
    assert silence.begins == NOW - 10 * SECOND


@given(st.integers(0, 300), st.integers(1, 60), st.integers(0, 1000))
def test_a_rest_begins_when_it_was_foretold_and_ends(since: int, every: int, later: int) -> None:
    """An observation at `next_silence` sees the pause begin. A pause that has ended never begins again."""
    timeline = Timeline(instants=(ours(since * SECOND),))
    activity = changed((since + 1) * SECOND, every=every * SECOND)
    silence = silenced(timeline, activity)
    assert silence is not None
    now = NOW + later * SECOND
    rests = "not committed since" in "".join(
        wait.reason for wait in kept_off(timeline, activity, OPTIONS, now).values()
    )

    assert rests == (silence.begins <= now < silence.ends)
    begins = next_silence(timeline, activity, now)
    assert begins == (silence.begins if now < silence.begins else None)


def test_a_commit_waits_for_what_its_service_is_kept_off_by() -> None:
    """It waits until then, at the commit. A clustering was checked when it was planned, and its plan does not wait."""
    wait = NotDue(reason="keeps a distance", again_at=NOW + SECOND)
    view = a_view(waits={Service.COMPACTION: wait, Service.CLUSTERING: wait})

    assert awaited(view, Service.COMPACTION, step=Step.COMMIT) == "keeps a distance"
    assert awaited(view, Service.COMPACTION, step=Step.PLAN) is None
    assert awaited(view, Service.CLUSTERING, step=Step.COMMIT) is None
    assert awaited(view, Service.CLEAN, step=Step.COMMIT) is None
    past = NotDue(reason="keeps a distance", again_at=NOW)
    assert awaited(a_view(waits={Service.COMPACTION: past}), Service.COMPACTION, step=Step.COMMIT) is None


def test_the_first_append_to_a_new_partition_ends_no_silence() -> None:
    """An appender continues although the writer that changed rows has fallen silent."""
    silent = WriterActivity(
        updated={
            "p=0": Touch(at=NOW - 100 * SECOND, instant="1", updates=True),
            "p=new": Touch(at=NOW - SECOND, instant="2", updates=False),
        },
        update_interval=10 * SECOND,
    )
    assert set(kept(ours(95 * SECOND), activity=silent)) == {Service.COMPACTION, Service.CLUSTERING}
