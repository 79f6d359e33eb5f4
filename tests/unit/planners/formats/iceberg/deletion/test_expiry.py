"""Which snapshots expire: those that Iceberg's own rule lets expire, and among them none that a writer may need."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.deletion.expiry import Expiry, expirable
from lakewarden.planners.formats.iceberg.deletion.refs import kept_more
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.options.service_options import CleanOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.triggers import NumCommits
from tests.support.iceberg.iceberg_history import DAY, History, committed_checkpoint, histories, kept_by_iceberg
from tests.support.values import NOW

NO_OUTAGE: dict[str, Any] = {"longest_outage": timedelta(0), "flink_restores": timedelta(0)}
TIMES = st.sampled_from([NOW - 30 * DAY, NOW - 10 * DAY, NOW, NOW + 60 * DAY])


def expiry(
    metadata: TableMetadata, now: datetime = NOW, *, table: dict[str, Any] | None = None, **options: Any
) -> Expiry:
    """Return the snapshots that may expire with these options of clean and of the table."""
    return expirable(metadata, CleanOptions(**options), IcebergTableOptions(**(table or {})), now)


@given(history=histories(flink=False), now=TIMES, days=st.sampled_from([0, 1, 5]), count=st.integers(1, 4))
def test_without_flink_it_is_icebergs_own_rule(history: History, now: datetime, days: int, count: int) -> None:
    """Branches with their own retention, tags and unreferenced snapshots stay as `RemoveSnapshots` keeps them. If a
    writer's clock is ahead, its snapshots from the future are younger than any outage, and stay too.
    """
    metadata = history.metadata()
    found = expiry(metadata, now, table=NO_OUTAGE, max_snapshot_age=days * DAY, min_snapshots_to_keep=count)
    kept = kept_by_iceberg(metadata, now, age=days * DAY, count=count)
    assert set(found.ids) == {one.id for one in metadata.snapshots if one.at < now} - kept


@given(history=histories(flink=False), now=TIMES, days=st.sampled_from([0, 1, 5]))
def test_a_table_may_say_that_no_number_of_snapshots_stays(history: History, now: datetime, days: int) -> None:
    """Iceberg takes `min-snapshots-to-keep` 0 for ages alone. The head of a branch stays even so."""
    told = {"history.expire.min-snapshots-to-keep": "0"}
    metadata = history.metadata(properties=told)
    found = expiry(metadata, now, table=NO_OUTAGE, max_snapshot_age=days * DAY)
    kept = kept_by_iceberg(metadata, now, age=days * DAY, count=0)
    assert set(found.ids) == {one.id for one in metadata.snapshots if one.at < now} - kept


def test_a_branch_ends_at_the_first_snapshot_that_is_too_old_whatever_the_clocks_before_it_say() -> None:
    """The clock of one writer was behind. Iceberg does not look further than its snapshot."""
    history = History()
    for at in (NOW - 3 * DAY, NOW - 5 * DAY, NOW):
        history.at = at
        history.commit()
    metadata = history.metadata()
    found = expiry(metadata, max_snapshot_age=4 * DAY)
    assert set(found.ids) == {1, 2} == {1, 2, 3} - kept_by_iceberg(metadata, NOW, age=4 * DAY, count=1)


@given(history=histories(), now=TIMES)
def test_nothing_expires_that_iceberg_would_keep(history: History, now: datetime) -> None:
    """The commits of Flink and the outages only keep more snapshots."""
    metadata = history.metadata()
    assert not set(expiry(metadata, now).ids) & kept_by_iceberg(metadata, now, age=5 * DAY, count=1)


@given(history=histories(), now=TIMES)
def test_no_name_loses_its_snapshot(history: History, now: datetime) -> None:
    """The head of a branch and the snapshot of a tag stay as long as the branch or the tag does."""
    metadata = history.metadata()
    found = expiry(metadata, now, table=NO_OUTAGE, max_snapshot_age=timedelta(0))
    assert not set(found.ids) & {ref.snapshot for ref in metadata.refs if ref not in found.refs}
    forever = expiry(metadata, now, table=NO_OUTAGE, max_snapshot_age=timedelta(0), expire_refs=False)
    assert not set(forever.ids) & {ref.snapshot for ref in metadata.refs}
    assert forever.refs == ()


@given(history=histories(), now=TIMES, outage=st.sampled_from([DAY, 9 * DAY]))
def test_nothing_younger_than_the_longest_outage_expires(history: History, now: datetime, outage: timedelta) -> None:
    """This holds for any configured age, and for any retention of a branch."""
    metadata = history.metadata()
    found = expiry(metadata, now, table={"longest_outage": outage}, max_snapshot_age=timedelta(0))
    assert all(metadata.by_id[one].at < now - outage for one in found.ids)


@given(history=histories(), now=TIMES, restores=st.sampled_from([timedelta(0), 7 * DAY]))
def test_the_newest_snapshots_of_the_flink_job_that_was_last_on_a_branch_stay(
    history: History, now: datetime, restores: timedelta
) -> None:
    """They stay for as long as the table exists, whatever was committed since, for the job may still be at work."""
    metadata = history.metadata()
    table = {"longest_outage": timedelta(0), "flink_restores": restores}
    expired = set(expiry(metadata, now, table=table, max_snapshot_age=timedelta(0)).ids)
    for branch in (ref for ref in metadata.refs if ref.is_branch):
        marked = [one for one in metadata.ancestors(branch.snapshot) if "flink.job-id" in one.summary]
        last = {one.summary["flink.job-id"] for one in marked[:1]}
        newest: dict[str, int] = {}
        for one in marked:
            if one.summary["flink.job-id"] in last:
                newest.setdefault(one.summary.get("flink.operator-id", ""), one.id)
        assert not expired & set(newest.values())


@given(history=histories(), now=TIMES, restores=st.sampled_from([timedelta(0), 7 * DAY]))
def test_nothing_stays_for_a_flink_job_that_cannot_be_restored_any_more(
    history: History, now: datetime, restores: timedelta
) -> None:
    """If no job is at work, Flink keeps nothing beyond `flink_restores`."""
    metadata = history.metadata()
    assume(all(one.at < now - restores for one in metadata.snapshots))
    table = {"longest_outage": timedelta(0), "flink_restores": restores, "keep_last_flink_commit": False}
    expired = set(expiry(metadata, now, table=table, max_snapshot_age=timedelta(0)).ids)
    kept = kept_by_iceberg(metadata, now, age=timedelta(0), count=1)
    assert expired == {one.id for one in metadata.snapshots} - kept


def test_a_job_that_is_redeployed_each_week_pins_one_snapshot_and_not_fifty() -> None:
    """Each redeployment has another job id. Erased rows must not stay readable in the snapshots of old jobs."""
    history = History()
    history.at = NOW - 50 * 7 * DAY
    for week in range(50):
        history.commit(checkpoint=(f"job-{week}", "op", 7))
        history.at += 7 * DAY
    history.commit()
    metadata = history.metadata()
    assert expiry(metadata, NOW + 20 * DAY).ids == tuple(range(1, 50))
    at_rest = {"keep_last_flink_commit": False}
    assert expiry(metadata, NOW + 20 * DAY, table=at_rest).ids == tuple(range(1, 51))


@given(history=histories(), now=TIMES)
def test_a_flink_job_that_is_restored_in_time_finds_its_last_checkpoint(history: History, now: datetime) -> None:
    """Flink follows the parents from a branch's head. A snapshot outside that chain would be of no use."""
    metadata = history.metadata()
    table = {"longest_outage": timedelta(0), "flink_restores": 9 * DAY}
    gone = expiry(metadata, now, table=table, max_snapshot_age=timedelta(0)).ids
    left = history.metadata(without=frozenset(gone))
    for branch in (ref.name for ref in metadata.refs if ref.is_branch):
        for job in ("job-a", "job-b"):
            for operator in ("op-1", "op-2"):
                before = committed_checkpoint(metadata, branch, job, operator)
                if before >= 0 and metadata.by_id[before + 1].at >= now - 9 * DAY:
                    assert committed_checkpoint(left, branch, job, operator) == before


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ({"kafka.connect.offsets.orders.group": "{}"}, "the sink that writes kafka.connect.offsets.orders.group"),
        ({"spark.sql.streaming.queryId": "q-1"}, "the stream q-1 of Spark"),
        ({"redpanda.commit-offset": "7"}, "the sink that writes redpanda.commit-offset"),
    ],
)
def test_the_newest_mark_of_each_sink_stays_with_what_leads_to_it(mark: dict[str, str], said: str) -> None:
    """Each sink that starts again looks for its mark from the head of the branch on, and commits again what it had
    committed if it finds none.
    """
    history = History(at=NOW - 9 * DAY)
    for summary in (mark, mark, {}, {}):
        history.commit(marks=summary)
        history.at += timedelta(hours=1)
    metadata = history.metadata()
    at_once: dict[str, Any] = {"max_snapshot_age": timedelta(0)}
    assert expiry(metadata, NOW - 3 * DAY, table={"longest_outage": timedelta(0)}, **at_once).ids == (1,)
    later = expiry(metadata, NOW + 90 * DAY, table={"longest_outage": timedelta(0)}, **at_once)
    assert later.ids == (1,), "a sink may be idle for longer than flink_restores"
    assert f"snapshot 2 is the newest of {said}" in later.kept
    gone = {"longest_outage": timedelta(0), "keep_last_flink_commit": False}
    assert expiry(metadata, NOW, table=gone, **at_once).ids == (1, 2, 3)


def test_a_sink_is_retired_once_a_thousand_snapshots_of_others_follow_its_mark() -> None:
    """Without that limit each key that a job once wrote into a summary would end the expiry of snapshots."""
    history = History(at=NOW - 90 * DAY)
    for summary in ({"kafka.connect.offsets.orders.group": "{}"}, *({} for _ in range(1000))):
        history.commit(marks=summary)
    assert expiry(history.metadata(), table=NO_OUTAGE, max_snapshot_age=timedelta(0)).ids == ()
    history.commit()
    gone = expiry(history.metadata(), table=NO_OUTAGE, max_snapshot_age=timedelta(0), max_snapshots=2000).ids
    assert len(gone) == 1001


def test_a_stray_key_is_ignored_by_name_and_the_guard_of_a_real_job_stays() -> None:
    """One snapshot has the key of a pipeline, and a job of Flink came after it. What the note offers lets go of the
    snapshots of the key alone.
    """
    history = History(at=NOW - 9 * DAY)
    flink = {"flink.job-id": "job", "flink.operator-id": "sink", "flink.max-committed-checkpoint-id": "7"}
    for summary in ({"pipeline.run_id": "1"}, {}, {}, flink, {}, {}):
        history.commit(marks=summary)
        history.at += timedelta(hours=1)
    metadata = history.metadata()
    at_once: dict[str, Any] = {"max_snapshot_age": timedelta(0)}
    held = expiry(metadata, table=NO_OUTAGE, **at_once)
    assert held.ids == ()
    [told] = [one for one in held.kept if "pipeline.run_id, set" in one]
    assert told.endswith('if no sink looks for pipeline.run_id, set ignored_marks: ["pipeline.*"]')
    ignoring = {**NO_OUTAGE, "ignored_marks": ("pipeline.*", "flink.*", "*")}
    assert expiry(metadata, table=ignoring, **at_once).ids == (1, 2, 3)


@pytest.mark.parametrize(
    "key",
    [
        *("added-records", "total-equality-deletes", "changed-partition-count", "partitions.p=1", "manifests-kept"),
        *("engine-name", "iceberg-version", "spark.app.id", "app-id", "wap.id", "trino_query_id", "lakewarden.run-id"),
    ],
)
def test_what_iceberg_and_its_engines_write_is_no_mark(key: str) -> None:
    """Else the last delete of a table, years ago, would pin its snapshot."""
    history = History(at=NOW - 9 * DAY)
    history.commit(marks={key: "1"})
    history.commit()
    history.commit()
    assert expiry(history.metadata(), table=NO_OUTAGE, max_snapshot_age=timedelta(0)).ids == (1, 2)


def test_a_stream_that_has_read_everything_stands_at_the_newest_write() -> None:
    """Rewrites follow it. Spark's stream does not write down that it has passed them, and goes on from the write."""
    history = History(at=NOW - 9 * DAY)
    for operation in ("append", "append", "replace", "replace"):
        history.commit(operation=operation)
    found = expiry(history.metadata(), table=NO_OUTAGE, max_snapshot_age=timedelta(0))
    assert found.ids == (1,)
    assert any(one.startswith("snapshot 2 is needed by a stream") for one in found.kept)
    history.commit()
    assert expiry(history.metadata(), table=NO_OUTAGE, max_snapshot_age=timedelta(0)).ids == (1, 2, 3, 4)


@given(history=histories(), now=TIMES, most=st.integers(1, 5))
def test_a_run_takes_the_oldest_and_not_too_many(history: History, now: datetime, most: int) -> None:
    """The snapshots left over are counted."""
    metadata = history.metadata()
    everything = expiry(metadata, now)
    some = expiry(metadata, now, max_snapshots=most)
    assert some.ids == everything.ids[:most]
    assert len(some.ids) + some.left == len(everything.ids)
    ages = [metadata.by_id[one].at for one in everything.ids]
    assert ages == sorted(ages)


@given(history=histories(), now=TIMES)
def test_it_is_known_when_the_next_may_expire(history: History, now: datetime) -> None:
    """A snapshot or a name may expire at that moment and not before. If never, then not in a hundred years."""

    def may_go(at: datetime) -> set[object]:
        some = expiry(metadata, at)
        return {*some.ids, *some.refs}

    metadata = history.metadata()
    found = expiry(metadata, now)
    later = NOW + 36_500 * DAY if found.next_at is None else found.next_at
    assert may_go(later - timedelta(milliseconds=1)) == may_go(now) or found.next_at is None
    assert (may_go(later) > may_go(now)) == (found.next_at is not None)


def flink_then(commits: int) -> History:
    """Return a table with ten checkpoints of Flink, followed by a commit of another writer every hour."""
    history = History(at=NOW - timedelta(hours=commits))
    history.commit()
    history.commit(checkpoint=("abc", "def", 10))
    for _ in range(commits):
        history.at += timedelta(hours=1)
        history.commit()
    return history


def test_explain_names_the_job_whose_memory_a_snapshot_is() -> None:
    """The operator reads which snapshot stays, and for which job."""
    found = expiry(flink_then(48).metadata(), table={"flink_restores": timedelta(0)}, max_snapshot_age=DAY)
    assert "snapshot 2 is the newest of Flink job abc, operator def (checkpoint 10)" in found.kept


def test_explain_counts_what_leads_to_a_flink_job_and_what_an_outage_keeps() -> None:
    """The reason has one sentence for each cause, not for each snapshot."""
    metadata = flink_then(48).metadata()
    [_, between] = expiry(metadata, max_snapshot_age=DAY).kept
    assert between == (
        "23 snapshots are on the way from a branch's head to the newest of a sink: if that sink is gone, set "
        "keep_last_flink_commit: false, and they stay for flink_restores (7d)"
    )
    table = {"longest_outage": 2 * DAY, "flink_restores": timedelta(0)}
    assert (
        "47 snapshots are younger than longest_outage (2d)" in expiry(metadata, table=table, max_snapshot_age="1h").kept
    )


def test_explain_names_tags() -> None:
    """The owner of a tag relies on it."""
    history = flink_then(3)
    history.point("v1", 1, is_branch=False)
    assert "snapshot 1 has the tag 'v1'" in expiry(history.metadata()).kept


def test_the_tables_own_properties_stand_where_the_policy_says_nothing() -> None:
    """The policy counts first, then the properties that the owner has set for Iceberg."""
    history = History(at=NOW - 10 * DAY)
    for _ in range(10):
        history.commit()
        history.at += DAY
    own = {"history.expire.max-snapshot-age-ms": str(3 * 86_400_000), "history.expire.min-snapshots-to-keep": "8"}
    assert expiry(history.metadata()).ids == (1, 2, 3, 4, 5)
    assert expiry(history.metadata(own)).ids == (1, 2)
    assert expiry(history.metadata(own), min_snapshots_to_keep=1).ids == (1, 2, 3, 4, 5, 6, 7)
    assert expiry(history.metadata(own), max_snapshot_age=9 * DAY, min_snapshots_to_keep=1).ids == (1,)


def test_an_age_that_stands_for_never_is_never() -> None:
    """Owners write the largest long for it."""
    history = flink_then(3)
    metadata = history.metadata({"history.expire.max-snapshot-age-ms": str(2**63 - 1)})
    assert expiry(metadata, NOW + 1000 * DAY, table=NO_OUTAGE).ids == ()


def test_a_retention_that_cannot_be_read_expires_nothing() -> None:
    """Expiring by a guess would delete needed snapshots."""
    with pytest.raises(PermanentError, match=r"history\.expire\.max-snapshot-age-ms is 'soon'"):
        expiry(flink_then(3).metadata({"history.expire.max-snapshot-age-ms": "soon"}))


def test_a_branch_may_ask_for_less_than_the_table_but_not_for_less_than_an_outage() -> None:
    """A branch's own age counts before the policy's. `longest_outage` counts before both."""
    history = History(at=NOW - 4 * DAY)
    history.commit()
    for _ in range(4):
        history.commit("dev")
        history.at += DAY
    history.refs["dev"] = replace(history.refs["dev"], max_snapshot_age=timedelta(minutes=1))
    assert expiry(history.metadata(), table={"longest_outage": 2 * DAY}).ids == (2, 3)


# A policy of clean that keeps less than the properties of the table say.


AGE, COUNT = "history.expire.max-snapshot-age-ms", "history.expire.min-snapshots-to-keep"
DAY_MS = 24 * 3600 * 1000


def said(properties: dict[str, str], **options: object) -> str | None:
    """Return what is said of a policy with these options."""
    policy = Policy(trigger=NumCommits(at_least=1), options=CleanOptions.model_validate(options))
    table = Table(id=TableId("t"), format="iceberg", location="/t", policies={Service.CLEAN: policy})
    found = kept_more(table, properties).get(Service.CLEAN)
    assert found is None or found.instant is None
    return None if found is None else found.says


def test_a_shorter_age_and_a_smaller_number_are_told() -> None:
    """The property that says more is named with its value."""
    assert said({AGE: str(7 * DAY_MS), COUNT: "50"}, max_snapshot_age=DAY, min_snapshots_to_keep=5) == (
        f"the policy keeps snapshots of 1d, where {AGE} says 7d and "
        f"the policy keeps at least 5 snapshots, where {COUNT} says 50"
    )
    assert said({AGE: str(2**63 - 1)}, max_snapshot_age=DAY) == (
        f"the policy keeps snapshots of 1d, where {AGE} says for ever"
    )


@pytest.mark.parametrize("stated", ["", "long", "-5", str(DAY_MS)])
def test_a_property_that_says_no_more_is_not_told(stated: str) -> None:
    """A property that is no number blocks the clean for another reason."""
    assert said({AGE: stated}, max_snapshot_age=DAY) is None


@given(st.dictionaries(st.sampled_from([AGE, COUNT]), st.integers(0, 2**70).map(str)))
def test_a_policy_without_a_retention_of_its_own_keeps_what_the_properties_say(properties: dict[str, str]) -> None:
    """Then the properties count."""
    assert said(properties) is None
