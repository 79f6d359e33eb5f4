"""What an Iceberg table needs of each service, and the sentences that report it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.backlog.clustering import ORDERED, ordered_by, remembering
from lakewarden.planners.formats.iceberg.backlog.memo import Holdings
from lakewarden.planners.formats.iceberg.backlog.needs import Needs, needs_of
from lakewarden.planners.formats.iceberg.catalogs.settings import HiveCatalog
from lakewarden.planners.formats.iceberg.deletion.plans_beside import (
    DeletionPlan,
    PlanBeside,
    instant_of,
    instants,
    waits_until,
)
from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile
from lakewarden.planners.formats.iceberg.metadata.manifests import FileContent, Manifest
from lakewarden.planners.formats.iceberg.metadata.metadata import Snapshot, TableMetadata
from lakewarden.planners.formats.iceberg.metadata.timeline import timeline_of
from lakewarden.planners.formats.iceberg.options.service_options import (
    CleanOptions,
    ClusteringOptions,
    CompactionOptions,
    TableStatsOptions,
)
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.writers.activity import newest_touches
from lakewarden.planners.model.instant import RunId, Service, State
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.model.view import Backlog, Touch, WriterActivity
from lakewarden.planners.settings import Settings
from lakewarden.planners.triggers import NumCommits
from tests.support.iceberg.iceberg_values import (
    MIB,
    a_commit_of_ours,
    a_file,
    a_manifest,
    a_metadata,
    a_snapshot,
    files,
)
from tests.support.values import NOW

SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
FULL = 512 * MIB


def a_table(**options: Settings) -> Table:
    """Return a table with a policy for each service that is given options."""
    policies = {
        Service(service): Policy(trigger=NumCommits(at_least=1), options=found) for service, found in options.items()
    }
    return Table(id=TableId("trips"), format="iceberg", location="/lake/trips", policies=policies)


def needs(
    metadata: TableMetadata,
    found: Sequence[LiveFile] = (),
    *,
    table: Table | None = None,
    manifests: Sequence[Manifest] = (),
    activity: WriterActivity | None = None,
    now: datetime = NOW,
    orphans_wait_until: datetime | None = None,
) -> Needs:
    """Return what the table needs."""
    return needs_of(
        table or a_table(),
        metadata,
        Holdings(files=found),
        manifests,
        activity or WriterActivity(),
        timeline=timeline_of(metadata),
        now=now,
        orphans_wait_until=orphans_wait_until,
    )


def appends(number: int, *, since: timedelta = HOUR) -> list[Snapshot]:
    """Return so many appends, a minute apart."""
    return [a_snapshot(at + 1, ago=since - at * MINUTE) for at in range(number)]


def updated(*partitions: str, ago: timedelta = 12 * SECOND, before: timedelta | None = None) -> WriterActivity:
    """Return a writer that changed rows of these partitions so long ago."""
    at = NOW - ago
    touch = Touch(at=at, instant="1", updates=True, before=None if before is None else at - before)
    return WriterActivity(updated=dict.fromkeys(partitions, touch), update_interval=2 * SECOND)


def test_what_a_compaction_would_rewrite_has_piled_up() -> None:
    """Files, bytes and groups are those of the planner. Commits are those since the last compaction."""
    snapshots = [*appends(3), a_commit_of_ours(4, Service.COMPACTION, ago=50 * MINUTE), a_snapshot(5, ago=MINUTE)]
    found = needs(a_metadata(*snapshots), files(5, sequence=5) + files(6, "p=1", sequence=5) + files(2, "p=2"))

    assert found.backlogs[Service.COMPACTION] == Backlog(
        commits=1,
        commits_since_request=1,
        since=NOW - 50 * MINUTE,
        since_request=NOW - 50 * MINUTE,
        files=11,
        bytes=11 * MIB,
        file_groups=2,
        small_files=11,
        writes=2,
    )


def test_what_goes_with_expired_snapshots_is_counted_by_their_children() -> None:
    """A file that a snapshot removed is kept by the snapshot before it alone. What an older child removed is gone."""
    snapshots = [
        a_snapshot(1, ago=30 * DAY, deleted_data_files="100", removed_files_size="1000"),
        a_snapshot(2, ago=29 * DAY, deleted_data_files="3", removed_files_size="30"),
        a_snapshot(3, ago=MINUTE, deleted_data_files="4", removed_delete_files="2", removed_files_size="50"),
        a_snapshot(4, ago=SECOND, deleted_data_files="9", removed_files_size="90"),
    ]
    table = a_table(clean=CleanOptions(max_snapshot_age=DAY, min_snapshots_to_keep=1))
    found = needs(a_metadata(*snapshots), table=table).backlogs[Service.CLEAN]
    assert (found.versions, found.deletes, found.deletes_bytes) == (2, 3 + 4 + 2, 80)


def test_what_was_left_by_the_last_compaction_is_due_at_once() -> None:
    """A run has a limit. What was left then counts from the first commit on."""
    snapshots = [*appends(3), a_commit_of_ours(4, Service.COMPACTION, ago=MINUTE)]
    found = needs(a_metadata(*snapshots), files(5, sequence=3))

    assert found.backlogs[Service.COMPACTION].commits == 3
    assert found.backlogs[Service.COMPACTION].since == NOW - HOUR


def test_a_part_of_a_run_is_no_compaction() -> None:
    """If a run was killed or met a conflict, its partial commit does not count as the last compaction."""
    part = a_commit_of_ours(4, Service.COMPACTION, ago=50 * MINUTE)
    part = replace(part, summary={**part.summary, "lakewarden.part": "more"})
    found = needs(a_metadata(*appends(3), part, a_snapshot(5, ago=MINUTE)), files(5, sequence=5))
    assert found.backlogs[Service.COMPACTION].commits == 4


def test_what_one_run_cannot_take_is_in_the_backlog_too() -> None:
    """Only the run has a limit, not the backlog."""
    found = needs(
        a_metadata(*appends(3)),
        files(5) + files(5, "p=1"),
        table=a_table(compaction=CompactionOptions(max_files=5)),
    )
    assert found.backlogs[Service.COMPACTION].files == 10


def test_a_partition_whose_next_touch_is_near_changes_the_view() -> None:
    """Only time makes the partition hot. The same holds for a writer that did not come when it was expected."""
    due_in_ten = updated("p=0", ago=5 * MINUTE, before=15 * MINUTE)
    found = needs(a_metadata(*appends(3)), files(5), activity=due_in_ten)
    assert found.backlogs[Service.COMPACTION].files == 5
    assert found.changes_at == NOW + 9 * MINUTE

    ours = a_commit_of_ours(4, Service.COMPACTION, ago=2 * SECOND)
    silent = needs(
        a_metadata(*appends(3), ours),
        files(5),
        table=replace(a_table(), options=IcebergTableOptions(distance=timedelta())),
        activity=updated("p=1", ago=3 * SECOND),
    )
    assert silent.changes_at == NOW + 8 * SECOND


def test_a_compaction_that_would_do_nothing_is_not_due() -> None:
    """The reason says so."""
    found = needs(a_metadata(*appends(3)), [*files(4), a_file(content=FileContent.EQUALITY_DELETES)])

    assert Service.COMPACTION not in found.backlogs
    assert found.at_rest[Service.COMPACTION].reason == (
        "Iceberg's planner would rewrite nothing of 4 data files and 1 delete files"
    )
    assert found.at_rest[Service.COMPACTION].again_at is None


def test_hot_partitions_are_no_backlog() -> None:
    """If all partitions are hot, the service waits until the first one is not. If only some are hot, the others are the
    backlog.
    """
    metadata = a_metadata(*appends(3))
    said = (
        "partitions that a rewrite would take were changed by MERGE, UPDATE or DELETE, last at 11:59:48 UTC, and are "
        "left alone"
    )
    all_hot = needs(metadata, files(5), activity=updated("p=0"))
    assert Service.COMPACTION not in all_hot.backlogs
    assert all_hot.at_rest[Service.COMPACTION].reason == f"1 of 1 {said}"
    assert all_hot.at_rest[Service.COMPACTION].again_at == all_hot.changes_at == NOW + 48 * SECOND

    some = needs(metadata, files(5) + files(7, "p=1"), activity=updated("p=0", "p=9"))
    assert some.backlogs[Service.COMPACTION].files == 7
    assert some.notes[Service.COMPACTION] == (f"1 of 2 {said}",)
    assert Service.COMPACTION not in some.at_rest


def test_a_table_without_partitions_is_hot_as_a_whole() -> None:
    """It has no partitions to count."""
    found = needs(a_metadata(*appends(3), specs={0: ()}), files(5, ""), activity=updated(""))
    assert found.at_rest[Service.COMPACTION].reason == (
        "the table's files were changed by MERGE, UPDATE or DELETE, last at 11:59:48 UTC, and are left alone"
    )


def test_what_is_never_quiet_names_the_remedy() -> None:
    """The owner must choose between the writer and the rewrite of such a partition."""
    found = needs(a_metadata(*appends(3)), files(5), activity=updated("p=0", before=MINUTE))
    assert "never quiet for 1m: see quiet_intervals and quiet_for" in found.at_rest[Service.COMPACTION].reason


def test_a_distance_is_kept_and_the_view_is_looked_at_again_then() -> None:
    """Until then there is no backlog. The commit of a run under way waits, too."""
    snapshots = [*appends(3), a_commit_of_ours(4, Service.COMPACTION, ago=10 * SECOND)]
    found = needs(a_metadata(*snapshots), files(5), activity=updated("p=1", ago=9 * SECOND))

    assert Service.COMPACTION not in found.backlogs
    assert "distance of 30s" in found.at_rest[Service.COMPACTION].reason
    assert found.waits[Service.COMPACTION].again_at == found.changes_at == NOW + 20 * SECOND
    assert found.backlogs.keys() == {Service.ORPHANS}


def clustering(
    found: Sequence[LiveFile],
    *snapshots: Snapshot,
    activity: WriterActivity | None = None,
    properties: dict[str, str] | None = None,
    **options: Any,
) -> Needs:
    """Return the needs of a table with a clustering. Its writers were seen only through their files."""
    metadata = a_metadata(*snapshots, properties=properties or {})
    touches = newest_touches(found, metadata, {})
    told = activity or WriterActivity(touches=touches)
    ordered = {"sort_order": "id", **options}
    return needs(metadata, found, table=a_table(clustering=ClusteringOptions(**ordered)), activity=told)


def test_a_clustering_without_an_order_is_blocked_unless_the_table_has_one() -> None:
    """Iceberg would fail in the middle of the run."""
    found, snapshot = files(5, "p=0", size=FULL, snapshot=8), a_snapshot(8, ago=3 * HOUR)
    policy = a_table(clustering=ClusteringOptions())
    [blocked] = needs(a_metadata(snapshot), found, table=policy).blockers
    assert blocked.services == {Service.CLUSTERING}
    assert "set sort_order or zorder" in blocked.remedy
    assert needs(replace(a_metadata(snapshot), sort_order=1), found, table=policy).blockers == ()


def test_a_clustering_takes_what_no_clustering_has_written() -> None:
    """It takes files of the right size too, and files with an expired commit. It does not take files that a clustering
    has written, whether their commit is known or remembered.
    """
    old, of_ours = a_snapshot(8, ago=3 * HOUR), a_commit_of_ours(9, Service.CLUSTERING, ago=2 * HOUR)
    found = clustering(
        [
            *files(5, "p=0", size=FULL, snapshot=8),
            *files(5, "p=1", size=FULL, snapshot=9),
            *files(6, "p=2", snapshot=3),
        ],
        old,
        of_ours,
    )
    assert found.backlogs[Service.CLUSTERING].files == 11
    remembered = clustering(
        [*files(5, "p=1", snapshot=9), *files(5, "p=2", snapshot=3)], old, of_ours, properties={ORDERED: "3,nobody,,77"}
    )
    assert Service.CLUSTERING not in remembered.backlogs

    nothing = clustering(files(5, snapshot=9) + files(4, "p=1", snapshot=8), old, of_ours)
    assert nothing.at_rest[Service.CLUSTERING].reason == (
        "in no partition is there enough that a clustering has not put in order yet"
    )


def test_the_table_remembers_which_commits_have_put_files_in_order_as_long_as_it_has_the_files() -> None:
    """It remembers those that are still known, those that were remembered, and the new one. It forgets a commit without
    a remaining file.
    """
    of_ours = a_commit_of_ours(9, Service.CLUSTERING, ago=2 * HOUR)
    metadata = a_metadata(a_snapshot(8, ago=3 * HOUR), of_ours, properties={ORDERED: "3,4"})
    assert ordered_by(metadata) == {3, 4, 9}
    live, now = {3, 8, 9, 5}, {ORDERED: "3,4,5"}
    remembered = remembering(metadata, live, 11, now=now)
    assert remembered == {ORDERED: "9,3,5,11"}
    again = remembering(metadata, {*live, 11}, 12, now=remembered)
    assert again == {ORDERED: "9,3,5,11,12"}
    many = {ORDERED: ",".join(str(one) for one in range(100, 1200))}
    kept = remembering(metadata, range(100, 1200), 2000, now=many)[ORDERED].split(",")
    assert (len(kept), kept[0], kept[-1]) == (1000, "201", "2000")


def test_a_partition_is_written_anew_only_for_enough_that_is_new() -> None:
    """Five files are enough, or more bytes than the target size of a file. Then the whole partition is rewritten."""
    old, of_ours = a_snapshot(8, ago=3 * HOUR), a_commit_of_ours(9, Service.CLUSTERING, ago=2 * HOUR)
    ordered = files(3, snapshot=9, size=FULL)
    assert Service.CLUSTERING not in clustering(ordered + files(4, snapshot=8), old, of_ours).backlogs
    assert clustering(ordered + files(5, snapshot=8), old, of_ours).backlogs[Service.CLUSTERING].files == 8
    large = files(2, snapshot=8, size=300 * MIB)
    assert clustering(ordered + large, old, of_ours).backlogs[Service.CLUSTERING].files == 5
    only_one = clustering(ordered + files(1, snapshot=8), old, of_ours, min_input_files=1)
    assert only_one.backlogs[Service.CLUSTERING].files == 4


def test_a_clustering_waits_until_nothing_was_written_for_a_while() -> None:
    """Appends count for a clustering. They do not count for a compaction."""
    written = a_snapshot(8, ago=20 * MINUTE)
    found = clustering(files(5, snapshot=8), written)

    assert found.at_rest[Service.CLUSTERING].again_at == found.changes_at == NOW + 40 * MINUTE
    assert "were written to within 1h" in found.at_rest[Service.CLUSTERING].reason
    assert clustering(files(5, snapshot=8), written, untouched_for=20 * MINUTE).backlogs[Service.CLUSTERING].files == 5


def test_a_clustering_waits_for_the_longer_of_the_two() -> None:
    """It waits for the time since the last write, and for the time that keeps it away from a writer."""
    written = a_snapshot(8, ago=20 * MINUTE)
    for interval, wait in ((10 * MINUTE, 40 * MINUTE), (30 * MINUTE, 70 * MINUTE)):
        touch = Touch(at=written.at, instant="1", updates=True)
        told = WriterActivity(touches={"p=0": touch}, updated={"p=0": touch}, update_interval=interval)
        found = clustering(files(5, snapshot=8), written, activity=told)
        assert found.at_rest[Service.CLUSTERING].again_at == NOW + wait


def test_without_a_policy_nothing_is_clustered() -> None:
    """There is no order by default."""
    found = needs(a_metadata(*appends(3)), files(5))
    assert Service.CLUSTERING not in (*found.backlogs, *found.at_rest)


def test_a_clean_is_due_when_a_snapshot_may_expire() -> None:
    """The reason says what may expire, and what stays although it is old. Otherwise the service waits until the next
    snapshot may expire.
    """
    young = needs(a_metadata(a_snapshot(1, ago=3 * DAY), a_snapshot(2, ago=2 * DAY)))
    assert young.at_rest[Service.CLEAN].reason == "none of 2 snapshots may expire yet"
    again_at = young.at_rest[Service.CLEAN].again_at
    assert again_at is not None
    assert again_at == young.changes_at
    assert timedelta() < again_at - (NOW + 2 * DAY) < SECOND

    old = needs(a_metadata(a_snapshot(1, ago=9 * DAY), a_snapshot(2, ago=8 * DAY), a_snapshot(3, ago=7 * DAY)))
    assert old.backlogs[Service.CLEAN].commits == 3
    assert old.notes[Service.CLEAN] == (
        "2 snapshots may expire now",
        "a stream or an incremental reader fails afterwards if it has not read main up to the snapshot of "
        f"{NOW - 7 * DAY:%Y-%m-%d %H:%M:%S} UTC (3), unless it is declared (options.readers)",
    )

    bounded = needs(
        a_metadata(a_snapshot(1, ago=9 * DAY), a_snapshot(2, ago=8 * DAY), a_snapshot(3, ago=7 * DAY)),
        table=a_table(clean=CleanOptions(max_snapshots=1)),
    )
    assert bounded.notes[Service.CLEAN][0] == "1 snapshot may expire now, and 1 more in later runs"


def test_statistics_are_due_when_something_was_written_since_the_last() -> None:
    """They are not due if the current snapshot has some, nor after rewrites alone. They are due only with a policy."""
    table, path = a_table(table_stats=TableStatsOptions()), "/lake/trips/metadata/1-5c0ffee5.stats"
    written = [*appends(3), a_commit_of_ours(4, Service.COMPACTION, ago=MINUTE)]
    assert needs(a_metadata(*appends(3)), table=table).backlogs[Service.TABLE_STATS].commits == 3

    some = needs(a_metadata(*written, statistics_of={2: (path,)}), table=table)
    assert some.backlogs[Service.TABLE_STATS].commits == 1
    for statistics in ({3: (path,)}, {4: (path,)}):
        found = needs(a_metadata(*written, statistics_of=statistics), table=table)
        assert Service.TABLE_STATS not in found.backlogs
        assert found.at_rest[Service.TABLE_STATS].reason in (
            "nothing was written since the last statistics",
            "the current snapshot 4 has its statistics",
        )
    assert Service.TABLE_STATS not in needs(a_metadata(*appends(3))).backlogs


def test_an_archive_is_due_when_there_are_many_small_manifests() -> None:
    """These are manifests of the current spec with less than half of the size that writers aim at, of data or of
    deletes.
    """
    metadata = a_metadata(*appends(3))
    small = [a_manifest() for _ in range(20)]
    assert needs(metadata, manifests=small).notes[Service.ARCHIVE] == ("20 small manifests of 20 are rewritten",)
    for others in (
        small[:19],
        [*small[:10], *(a_manifest(of_deletes=True) for _ in range(10))],
        [a_manifest(spec=7) for _ in range(20)],
        [a_manifest(length=4 * MIB) for _ in range(20)],
    ):
        rest = needs(metadata, manifests=others).at_rest[Service.ARCHIVE]
        assert rest.reason.endswith("of 20 small manifests that are worth a rewrite")
    smaller = a_metadata(*appends(3), properties={"commit.manifest.target-size-bytes": "10000"})
    assert Service.ARCHIVE not in needs(smaller, manifests=small).backlogs


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        (a_metadata(*appends(3), types=frozenset({"long", "time"})), "columns of type time"),
        (a_metadata(*appends(3), format_version=3), "would give the rows"),
    ],
)
def test_an_archive_rewrites_no_manifests_that_iceberg_would_fail_at_or_number_anew(
    metadata: TableMetadata, why: str
) -> None:
    """Its rewrite reads the bounds of each column through Spark. From version 3 on rows have ids, deletes not."""
    found = needs(metadata, manifests=[a_manifest() for _ in range(20)])
    assert Service.ARCHIVE not in found.backlogs
    assert why in found.at_rest[Service.ARCHIVE].reason
    of_deletes = needs(metadata, manifests=[a_manifest(of_deletes=True) for _ in range(20)])
    assert (Service.ARCHIVE in of_deletes.backlogs) is (metadata.format_version == 3)


def test_files_that_orphans_has_only_seen_are_asked_for_again_even_without_writes() -> None:
    """A trigger counts commits, and a quiet table has none. The files would stay there for ever."""
    metadata = a_metadata(a_snapshot(1, ago=HOUR))
    plan = DeletionPlan(
        instant=instant_of(Service.ORPHANS, RunId("r"), NOW - MINUTE),
        run=RunId("r"),
        requested_at=NOW - MINUTE,
        state=State.COMPLETED,
        snapshots=(),
        files=0,
        data_files=0,
        completed_at=NOW - MINUTE,
        waits_until=NOW + HOUR,
    )
    beside = PlanBeside(service=Service.ORPHANS, table="t", completed=(plan,))
    until = waits_until([None, beside], Service.ORPHANS)
    assert until == plan.waits_until
    assert waits_until([beside], Service.CLEAN) is None

    def commits(at: datetime, until: datetime | None) -> int:
        found = needs_of(
            a_table(),
            metadata,
            Holdings(),
            (),
            WriterActivity(),
            timeline=timeline_of(metadata, instants([beside])),
            now=at,
            orphans_wait_until=until,
        )
        assert until is None or until <= at or found.changes_at == until
        return found.backlogs[Service.ORPHANS].commits

    assert commits(NOW, None) == 0
    assert commits(NOW, until) == 0
    assert commits(NOW + 2 * HOUR, until) == 1


def test_a_table_without_a_snapshot_needs_nothing() -> None:
    """It was created, and never written to."""
    found = needs(a_metadata())
    assert found.backlogs == {}
    assert {rest.reason for rest in found.at_rest.values()} == {"nothing was ever committed to the table"}


@pytest.mark.parametrize(
    ("table", "properties", "service"),
    [
        (a_table(compaction=CompactionOptions(min_file_size=FULL)), {}, Service.COMPACTION),
        (a_table(), {"write.target-file-size-bytes": "lots"}, Service.COMPACTION),
        (a_table(clustering=ClusteringOptions(max_file_size=MIB)), {}, Service.CLUSTERING),
        (a_table(), {"history.expire.max-snapshot-age-ms": "long"}, Service.CLEAN),
    ],
)
def test_settings_that_iceberg_would_refuse_hold_their_service_back(
    table: Table, properties: dict[str, str], service: Service
) -> None:
    """No other service is held back."""
    found = needs(a_metadata(*appends(3), properties=properties), files(5), table=table)
    assert [blocker.services for blocker in found.blockers] == [frozenset({service})]
    assert service not in found.backlogs
    assert found.blockers[0].remedy


SPANS = st.integers(1, 7200).map(lambda seconds: seconds * SECOND)


@given(
    st.lists(SPANS, min_size=1, max_size=6),
    st.dictionaries(st.sampled_from(["p=0", "p=1"]), SPANS),
    st.none() | SPANS,
    st.none() | SPANS,
    st.integers(1, 4 * 7200),
)
def test_until_it_changes_a_view_stands(
    ages: list[timedelta], hot: dict[str, timedelta], interval: timedelta | None, run: timedelta | None, later: int
) -> None:
    """Before `changes_at` every decision on the view stays the same."""
    commits = [a_snapshot(at + 1, ago=ago) for at, ago in enumerate(sorted(ages, reverse=True))]
    if run is not None:
        commits.append(a_commit_of_ours(len(commits) + 1, Service.COMPACTION, ago=min(run, *ages)))
    found = files(5) + files(6, "p=1", snapshot=len(ages)) + files(5, "p=2")
    metadata = a_metadata(*commits)
    table = Table(
        id=TableId("trips"),
        format="iceberg",
        location="/lake/trips",
        options=IcebergTableOptions(longest_outage=HOUR),
        policies=a_table(
            clustering=ClusteringOptions(),
            clean=CleanOptions(max_snapshot_age=HOUR),
        ).policies,
    )
    activity = WriterActivity(
        touches=newest_touches(found, metadata, {}),
        updated={one: Touch(at=NOW - ago, instant="1", updates=True) for one, ago in hot.items()},
        update_interval=interval,
    )
    first = needs(metadata, found, table=table, activity=activity)
    moment = NOW + later * SECOND
    if first.changes_at is None or moment < first.changes_at:
        then = needs(metadata, found, table=table, activity=activity, now=moment)
        assert (then.backlogs, then.at_rest.keys(), then.waits) == (first.backlogs, first.at_rest.keys(), first.waits)
    else:
        assert first.changes_at > NOW


def test_services_that_commit_are_blocked_where_commits_take_no_lock() -> None:
    """Orphans commits nothing, and is not concerned. The other services are, whatever the table needs."""
    catalog = HiveCatalog(type="hive", uri="thrift://metastore:9083")
    table = replace(a_table(clean=CleanOptions()), location="catalog://hive/sales.trips", catalog=catalog)
    metadata = a_metadata(properties={"engine.hive.lock-enabled": "false"})

    (blocker,) = needs(metadata, table=table).blockers
    assert "commits take no lock" in blocker.reason
    assert not blocker.concerns(Service.ORPHANS)
    assert all(blocker.concerns(one) for one in (Service.COMPACTION, Service.CLEAN, Service.ARCHIVE))
    assert needs(metadata).blockers == ()


def test_a_reader_on_a_branch_that_is_not_there_blocks_clean_by_its_name() -> None:
    """Its snapshots could not be told from those that may expire."""
    options = IcebergTableOptions.model_validate({"readers": [{"name": "a", "longest_lag": "1d", "branch": "audit"}]})
    table = replace(a_table(clean=CleanOptions()), options=options)

    (blocker,) = needs(a_metadata(a_snapshot(1, ago=HOUR)), table=table).blockers
    assert "reader a is declared on the branch 'audit'" in blocker.reason
    assert blocker.services == frozenset({Service.CLEAN})
