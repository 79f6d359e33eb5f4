"""Which files the owner's policy lets a rewrite take: by partition, by age, and in which order."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakewarden.planners.formats.iceberg.backlog.memo import HeldDigests
from lakewarden.planners.formats.iceberg.backlog.needs import needs_of
from lakewarden.planners.formats.iceberg.metadata.digests import ManifestDigest
from lakewarden.planners.formats.iceberg.metadata.files import Tallies
from lakewarden.planners.formats.iceberg.metadata.manifests import ContentFile, EntryStatus, FileContent
from lakewarden.planners.formats.iceberg.metadata.metadata import PartitionField
from lakewarden.planners.formats.iceberg.metadata.timeline import timeline_of
from lakewarden.planners.formats.iceberg.options.service_options import CompactionOptions, JobOrder, RewriteOptions
from lakewarden.planners.formats.iceberg.rewriting.choosing import choose
from lakewarden.planners.formats.iceberg.rewriting.groups import Group, file_groups
from lakewarden.planners.formats.iceberg.rewriting.selection import selection, thresholds
from lakewarden.planners.formats.iceberg.writers.activity import newest_touches
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import WriterActivity
from tests.support.iceberg.iceberg_values import MIB, a_commit_of_ours, a_metadata, a_snapshot, files
from tests.support.values import NOW
from tests.unit.planners.formats.iceberg.backlog.test_needs import a_table, appends, needs

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def compaction(**options: object) -> CompactionOptions:
    return CompactionOptions.model_validate(options)


def test_only_partitions_that_are_asked_for_are_rewritten() -> None:
    """The other partitions are no backlog, and the note says what is left out."""
    table = a_table(compaction=compaction(where="p >= 1"))
    found = needs(a_metadata(*appends(3)), files(5) + files(6, "p=1") + files(7, "p=null"), table=table)

    assert found.backlogs[Service.COMPACTION].files == 6
    assert found.notes[Service.COMPACTION] == ("it takes only files of partitions where p >= 1",)

    none = needs(a_metadata(*appends(3)), files(5), table=table)
    assert none.at_rest[Service.COMPACTION].reason == (
        "Iceberg's planner would rewrite nothing of 5 data files and 0 delete files; it takes only files of partitions "
        "where p >= 1"
    )


def test_a_file_is_told_by_the_spec_in_which_it_lies() -> None:
    """Files of an old spec without such a field are left as they are, although they would be grouped with others."""
    specs = {0: (PartitionField(field_id=1000, name="q", transform="identity"),), 1: a_metadata().specs[0]}
    metadata = a_metadata(*appends(3), specs=specs, default_spec=1)
    found = [*files(5, "q=1", spec=0), *files(5, "p=1", spec=1)]
    may = selection(RewriteOptions(where="p = 1"), metadata, NOW)

    (group,) = file_groups(found, metadata, thresholds(RewriteOptions(), {}), may=may)
    assert set(group.keys) == {file.key for file in found[5:]}


def test_a_field_that_is_none_blocks_the_service_by_name() -> None:
    """Otherwise a misspelled field would leave everything unwritten for ever."""
    found = needs(a_metadata(*appends(3)), files(5), table=a_table(compaction=compaction(where="day = '2026-01-01'")))
    (blocker,) = [one for one in found.blockers if one.concerns(Service.COMPACTION)]
    assert blocker.reason == "where asks for day, which the table is not partitioned by (its partition fields are p)"
    assert blocker.remedy == "set where in the options of its compaction policy anew"


def test_young_files_are_left_until_they_are_old_enough() -> None:
    """Only files that a writer added are young. Files that a rewrite made are old. The view says when the next file is
    old enough.
    """
    snapshots = [a_snapshot(1, ago=HOUR), a_snapshot(2, ago=9 * MINUTE), a_snapshot(3, ago=MINUTE)]
    ours = a_commit_of_ours(4, Service.COMPACTION, ago=MINUTE)
    table = a_table(compaction=compaction(min_file_age="10m"))
    held = [*files(3, snapshot=1), *files(4, snapshot=2), *files(2, snapshot=4), *files(6, "p=1", snapshot=3)]
    found = needs(a_metadata(*snapshots, ours), held, table=table)

    assert found.backlogs[Service.COMPACTION].files == 5
    assert found.changes_at == NOW + MINUTE
    later = needs(a_metadata(*snapshots, ours), held, table=table, now=NOW + MINUTE)
    assert later.backlogs[Service.COMPACTION].files == 9
    last = needs(a_metadata(*snapshots, ours), held, table=table, now=NOW + 9 * MINUTE)
    assert last.backlogs[Service.COMPACTION].files == 15


def _digest(partition: str, snapshot: int, number: int) -> ManifestDigest:
    return ManifestDigest(
        [
            ContentFile(
                path=f"/lake/trips/data/{partition}-{snapshot}-{one}.parquet",
                content=FileContent.DATA,
                status=EntryStatus.ADDED,
                file_format="PARQUET",
                spec=0,
                partition=partition,
                size=MIB,
                records=10,
                snapshot=snapshot,
                sequence=snapshot,
            )
            for one in range(number)
        ],
        spec=0,
    )


@pytest.mark.parametrize(("ago", "files_told"), [(9, 3), (11, 7)])
def test_where_files_are_tallied_the_young_are_told_by_themselves(ago: int, files_told: int) -> None:
    """The tallies of a partition have no ages, so each file of a partition with young files is listed."""
    metadata = a_metadata(a_snapshot(1, ago=HOUR), a_snapshot(2, ago=ago * MINUTE))
    options = compaction(min_file_age="10m", min_input_files=2)
    held = HeldDigests({"a": _digest("p=0", 1, 3), "b": _digest("p=1", 2, 4)}, ())
    rules, may = thresholds(options, {}), selection(options, metadata, NOW)

    holdings, _ = held.holdings(metadata, rules, Tallies(), may)
    assert holdings.data_files == 7
    assert len(holdings.files) == (4 if files_told == 3 else 0)
    groups = file_groups(holdings.files, metadata, rules, holdings.tallies, may=may)
    assert sum(group.files for group in groups) == files_told


def test_a_compaction_may_wait_until_nothing_was_written_for_a_while() -> None:
    """By default it does not wait, for no append conflicts with it."""
    metadata = a_metadata(a_snapshot(1, ago=HOUR), a_snapshot(2, ago=20 * MINUTE))
    held = files(5, snapshot=2)
    activity = WriterActivity(touches=newest_touches(held, metadata, {}))

    found = needs(metadata, held, table=a_table(compaction=compaction(untouched_for="1h")), activity=activity)
    assert found.at_rest[Service.COMPACTION].again_at == found.changes_at == NOW + 40 * MINUTE
    assert "were written to within 1h" in found.at_rest[Service.COMPACTION].reason
    assert needs(metadata, held, activity=activity).backlogs[Service.COMPACTION].files == 5


@pytest.mark.parametrize(
    ("order", "first"),
    [
        (JobOrder.MOST_FRAGMENTED, "pieces"),
        (JobOrder.OLDEST, "old"),
        (JobOrder.BYTES_ASC, "light"),
        (JobOrder.BYTES_DESC, "heavy"),
        (JobOrder.FILES_ASC, "few"),
        (JobOrder.FILES_DESC, "many"),
    ],
)
def test_a_run_that_cannot_take_all_takes_them_in_the_order_that_is_asked_for(order: JobOrder, first: str) -> None:
    """The orders are Iceberg's own, by age, and by what readers open."""

    def group(name: str, *, number: int = 5, size: int = 50, opened: int = 5, oldest: int = 5) -> Group:
        return Group(partitions=frozenset({name}), files=number, bytes=size, opened=opened, oldest=oldest, keys=(1,))

    made = [
        group("few", number=1),
        group("heavy", size=90),
        group("old", oldest=1),
        group("pieces", opened=50),
        group("light", size=10),
        group("many", number=9),
    ]
    options = RewriteOptions(max_files=9, max_bytes=1, job_order=order)
    assert choose(made, (), options).takes[0].partitions == {first}
    assert {one.partitions for one in choose(made, (), options).left} == {one.partitions for one in made} - {
        frozenset({first})
    }


def test_nothing_young_is_asked_for_where_no_age_is() -> None:
    """Then the view is valid until the table changes."""
    metadata = a_metadata(a_snapshot(1, ago=timedelta(seconds=1)))
    found = needs_of(
        a_table(compaction=compaction()),
        metadata,
        HeldDigests({"a": _digest("p=0", 1, 5)}, ()).everything(),
        (),
        WriterActivity(),
        timeline=timeline_of(metadata),
        now=NOW,
    )
    assert found.backlogs[Service.COMPACTION].files == 5
    assert selection(compaction(), metadata, NOW).changes_at is None
