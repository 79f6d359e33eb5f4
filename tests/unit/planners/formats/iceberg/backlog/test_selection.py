"""Which files the owner's policy lets a rewrite take: by partition, by age, and in which order."""

from __future__ import annotations

from datetime import timedelta

from lakewarden.planners.formats.iceberg.metadata.metadata import PartitionField
from lakewarden.planners.formats.iceberg.options.service_options import CompactionOptions, RewriteOptions
from lakewarden.planners.formats.iceberg.rewriting.choosing import choose
from lakewarden.planners.formats.iceberg.rewriting.groups import Group, file_groups
from lakewarden.planners.formats.iceberg.rewriting.selection import selection, thresholds
from lakewarden.planners.formats.iceberg.writers.activity import newest_touches
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import WriterActivity
from tests.support.iceberg.iceberg_values import a_metadata, a_snapshot, files
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
    may = selection(RewriteOptions(where="p = 1"), metadata)

    (group,) = file_groups(found, metadata, thresholds(RewriteOptions(), {}), may=may)
    assert set(group.keys) == {file.key for file in found[5:]}


def test_a_field_that_is_none_blocks_the_service_by_name() -> None:
    """Otherwise a misspelled field would leave everything unwritten for ever."""
    found = needs(a_metadata(*appends(3)), files(5), table=a_table(compaction=compaction(where="day = '2026-01-01'")))
    (blocker,) = [one for one in found.blockers if one.concerns(Service.COMPACTION)]
    assert blocker.reason == "where asks for day, which the table is not partitioned by (its partition fields are p)"
    assert blocker.remedy == "set where in the options of its compaction policy again"


def test_a_compaction_may_wait_until_nothing_was_written_for_a_while() -> None:
    """By default it does not wait, for no append conflicts with it."""
    metadata = a_metadata(a_snapshot(1, ago=HOUR), a_snapshot(2, ago=20 * MINUTE))
    held = files(5, snapshot=2)
    activity = WriterActivity(touches=newest_touches(held, metadata, {}))

    found = needs(metadata, held, table=a_table(compaction=compaction(untouched_for="1h")), activity=activity)
    assert found.at_rest[Service.COMPACTION].again_at == found.changes_at == NOW + 40 * MINUTE
    assert "were written to within 1h" in found.at_rest[Service.COMPACTION].reason
    assert needs(metadata, held, activity=activity).backlogs[Service.COMPACTION].files == 5


def test_a_run_that_cannot_take_all_takes_the_most_fragmented_first() -> None:
    """That is the partition in which readers open most files. Among equals the older comes first."""

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
    choice = choose(made, (), RewriteOptions(max_files=9, max_bytes=1))
    assert [name for taken in choice.takes for name in taken.partitions] == ["pieces"]
    assert [name for left in choice.left for name in left.partitions] == ["old", "few", "heavy", "light", "many"]
