"""The limits of a rewrite beside equality deletes, determined from metadata, without Iceberg."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile, ManifestDigest
from lakewarden.planners.formats.iceberg.metadata.files import manifests_of, read_table
from lakewarden.planners.formats.iceberg.metadata.manifests import ContentFile, EntryStatus, FileContent
from lakewarden.planners.formats.iceberg.metadata.metadata import PartitionField, Snapshot, TableMetadata
from lakewarden.planners.formats.iceberg.metadata.schemas import dropped_in
from lakewarden.planners.formats.iceberg.options.service_options import RewriteOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.rewriting.choosing import choose
from lakewarden.planners.formats.iceberg.rewriting.deletes import (
    Planned,
    anchored,
    are_expected,
    blocked_by_dropped_columns,
    kept_specs,
    needless,
    refusal,
)
from lakewarden.planners.formats.iceberg.rewriting.groups import file_groups
from lakewarden.planners.formats.iceberg.rewriting.selection import thresholds
from lakewarden.planners.model.instant import Service
from lakewarden.planners.storage import LocalStorage
from tests.support.iceberg.iceberg_look import view_of
from tests.support.iceberg.iceberg_table import DATA, EQUALITY_DELETES, IcebergTable
from tests.support.iceberg.iceberg_values import MIB, a_file, a_metadata, a_snapshot, deletes_of, files
from tests.support.values import NOW

if TYPE_CHECKING:
    from pathlib import Path

BY_P = (PartitionField(field_id=1000, name="p", transform="identity"),)
BY_V = (PartitionField(field_id=1001, name="v", transform="identity"),)
SPECS = {0: BY_P, 1: (), 2: BY_V}
DAY = timedelta(days=1)


def evolved(*snapshots: Snapshot) -> TableMetadata:
    """Return a table that was partitioned by `p`, then by nothing, and now by `v`."""
    return a_metadata(*snapshots, specs=SPECS, default_spec=2)


def upserts(number: int, *, ago: timedelta, job: str | None = "j1") -> Snapshot:
    """Return a commit with equality deletes."""
    commit = a_snapshot(number, ago=ago, operation="overwrite", added_equality_delete_files="1")
    return commit if job is None else replace(commit, summary={**commit.summary, "flink.job-id": job})


def equal(snapshot: int, *, spec: int = 0) -> LiveFile:
    """Return a live equality delete file."""
    return a_file(spec=spec, snapshot=snapshot, sequence=snapshot, content=FileContent.EQUALITY_DELETES)


def kept(found: list[LiveFile], *snapshots: Snapshot, **options: Any) -> set[int]:
    """Return the old specs that rewritten files keep."""
    return set(kept_specs(found, evolved(*snapshots), IcebergTableOptions(**options), NOW))


def test_files_stay_in_the_spec_by_which_a_job_deletes() -> None:
    """They stay there as long as the job may be restored. After that they are rewritten into the table's own spec."""
    assert kept([equal(1)], upserts(1, ago=DAY)) == {0}
    assert kept([equal(1)], upserts(1, ago=8 * DAY), a_snapshot(2, ago=DAY)) == set()
    assert kept([equal(1)], upserts(1, ago=8 * DAY), a_snapshot(2, ago=DAY), flink_restores="9d") == {0}


def test_a_job_that_only_adds_rows_for_a_while_still_has_its_spec() -> None:
    """Its next delete would not reach rows that a rewrite has moved to another spec, and they would stay."""
    only_adds = replace(a_snapshot(2, ago=DAY), summary={"flink.job-id": "j1"})
    assert kept([equal(1)], upserts(1, ago=8 * DAY), only_adds) == {0}
    assert kept([], upserts(1, ago=8 * DAY), only_adds) == {0}
    assert kept([equal(1)], upserts(1, ago=8 * DAY, job="j0"), only_adds) == set()


def test_a_job_that_writes_by_the_tables_own_spec_keeps_nothing() -> None:
    """Its deletes reach every file that is rewritten into the spec, and no file outside it. All commits of a job belong
    to one job.
    """
    assert kept([equal(1, spec=2)], upserts(1, ago=DAY)) == set()
    assert kept([equal(2, spec=2)], upserts(1, ago=DAY), upserts(2, ago=DAY)) == set()
    assert kept([equal(2, spec=2)], upserts(1, ago=DAY, job="j0"), upserts(2, ago=DAY)) == {0}


def test_where_no_delete_of_a_job_is_left_its_spec_may_be_any() -> None:
    """A rewrite has dropped all its deletes, and the job continues. The same holds for a job without a known commit."""
    assert kept([], upserts(1, ago=DAY)) == {0}
    assert kept([], upserts(1, ago=DAY, job=None)) == {0}
    assert kept([equal(1)], a_snapshot(2, ago=DAY)) == {0}
    assert kept([equal(1)], a_snapshot(2, ago=8 * DAY), a_snapshot(3, ago=DAY)) == set()


def test_with_identifier_fields_a_job_counts_before_its_first_delete_and_after_its_last() -> None:
    """The snapshots with its deletes have expired, and a rewrite has dropped these. Or it has only added rows so far.
    Its next delete would not reach rows that a rewrite has moved to another spec.
    """

    def by(found: list[LiveFile], *snapshots: Snapshot) -> set[int]:
        metadata = replace(evolved(*snapshots), has_identifier=True)
        return set(kept_specs(found, metadata, IcebergTableOptions(), NOW))

    adds = replace(a_snapshot(2, ago=DAY), summary={"flink.job-id": "j1", "engine-name": "flink"})
    assert by([], adds) == {0}
    assert by([], a_snapshot(2, ago=DAY)) == {0}
    assert kept([], adds) == set()
    assert by([], replace(adds, at=NOW - 8 * DAY), by_spark(3)) == set()
    assert by([equal(1, spec=2)], upserts(1, ago=2 * DAY), adds) == set()
    assert by([], replace(a_snapshot(2, ago=DAY), operation="replace")) == set()


def by_spark(number: int) -> Snapshot:
    """Return a commit of Spark, which deletes by position alone."""
    return a_snapshot(number, ago=DAY, operation="overwrite", engine_name="spark")


def test_deletes_by_a_spec_without_partitions_reach_every_file() -> None:
    """Files of such a spec may leave it. Without equality deletes all files may."""
    assert kept([equal(1, spec=1)], upserts(1, ago=DAY)) == set()
    assert kept([a_file()], a_snapshot(1, ago=DAY)) == set()


def test_kept_files_are_grouped_by_their_own_partitions() -> None:
    """Files of other specs are grouped as Iceberg's planner does it."""
    found = [*files(5, "p=0"), *files(6, "p=1"), *files(5, "", spec=1)]
    rules = thresholds(RewriteOptions(), {})
    by_spec = {
        (one.spec, one.partitions): (one.files, one.left) for one in file_groups(found, evolved(), rules, keeps={0})
    }

    assert by_spec == {
        (0, frozenset({"p=0"})): (5, frozenset()),
        (0, frozenset({"p=1"})): (6, frozenset()),
        (2, frozenset({""})): (5, frozenset({1})),
    }


def test_the_note_says_that_files_stay_in_their_old_spec(tmp_path: Path) -> None:
    """The reason is included, and the groups are those of the old partitions."""
    table = IcebergTable(tmp_path / "trips")
    for p in (0, 1):
        for _ in range(6):
            table.append(table.file(p))
    table.commit("overwrite", add=[table.file(0, content=EQUALITY_DELETES)], summary={"flink.job-id": "j1"})
    by_id = {"name": "id", "transform": "identity", "source-id": 1, "field-id": 1001}
    table.specs.append({"spec-id": 1, "fields": [by_id]})
    table.save()
    view = view_of(table)

    assert view.backlogs[Service.COMPACTION].file_groups == 2
    assert view.notes[Service.COMPACTION] == (
        "12 files of older partition specs are rewritten within these: within 7d a job deleted by equality that may "
        "have been started with one of them, and reaches no file of another",
    )

    table.schema = {**table.schema, "identifier-field-ids": [1]}
    table.append(table.file(0), summary={"engine-name": "flink"})
    assert view_of(table).notes[Service.COMPACTION] == (
        "13 files of older partition specs are rewritten within these: within 7d a job wrote that may delete by "
        "equality, because the schema has identifier fields. It may have been started with one of them, and reaches "
        "no file of another",
    )


DATA_FILES = st.lists(
    st.builds(a_file, st.sampled_from(["p=0", "p=1"]), sequence=st.integers(1, 4), size=st.sampled_from([1, MIB])),
    min_size=1,
    max_size=12,
)


@given(DATA_FILES, st.integers(1, 4), st.integers(0, 1))
def test_one_file_of_before_the_plan_is_left_wherever_something_is_rewritten_beside_it(
    found: list[LiveFile], at_least: int, others: int
) -> None:
    """With such a file, Iceberg drops no delete from after the plan. The rewrite leaves out the newest file that it
    can. If it can leave out none, nothing is changed.
    """
    rules = thresholds(RewriteOptions(min_input_files=at_least), {})
    takes = choose(file_groups(found, a_metadata(), rules), (), RewriteOptions(max_files=1000, max_bytes=2**40)).takes
    taken = [file for file in found if any(file.key in group.keys for group in takes)]
    left = anchored(takes, taken, data_files=len(found) + others)

    rewritten = {key for group in takes for key in group.keys}
    remain = {key for group in left for key in group.keys}
    assert remain <= rewritten
    assert all(group.files == len(group.keys) > 0 for group in left)
    if others or rewritten != {file.key for file in found} or not takes:
        assert left == takes
    elif any(group.files > 2 for group in takes):
        [anchor] = rewritten - remain
        large = {key for group in takes if group.files > 2 for key in group.keys}
        by_key = {file.key: file for file in found}
        assert by_key[anchor].sequence == max(by_key[key].sequence for key in large)
    else:
        assert bool(rewritten - remain) == (len(takes) > 1)


def test_deletes_by_equality_are_expected_where_there_were_some() -> None:
    """The deletes are live, or their commit is known."""
    assert are_expected([equal(1)], a_metadata())
    assert are_expected([], a_metadata(upserts(1, ago=DAY)))
    assert not are_expected([deletes_of(a_file())], a_metadata(a_snapshot(1, ago=DAY)))


def test_a_delete_is_needless_when_no_file_is_old_enough_for_it() -> None:
    """An equality delete applies to older files, a position delete also to those of the same commit."""
    file = a_file(sequence=5)
    for sequence in (4, 5, 6):
        by_equality = a_file(sequence=sequence, content=FileContent.EQUALITY_DELETES)
        by_position = a_file(sequence=sequence, content=FileContent.POSITION_DELETES)
        of_it, of_none = deletes_of(file, sequence=sequence), deletes_of(file, sequence=sequence, references=-1)
        assert (by_equality in needless([file, by_equality], SPECS)) == (sequence <= 5)
        assert (by_position in needless([file, by_position], SPECS)) == (sequence < 5)
        assert (of_it in needless([file, of_it], SPECS)) == (sequence < 5)
        assert of_none in needless([file, of_none], SPECS)


def test_a_delete_without_a_partition_is_needed_by_files_of_every_spec() -> None:
    """A delete of another partition, or of the same name in another spec, is needed by none of them."""
    file = a_file("p=0", spec=0, sequence=1)
    everywhere = a_file("", spec=1, sequence=2, content=FileContent.EQUALITY_DELETES)
    elsewhere = a_file("p=1", spec=0, sequence=2, content=FileContent.EQUALITY_DELETES)
    of_another_spec = a_file("p=0", spec=2, sequence=2, content=FileContent.EQUALITY_DELETES)

    assert needless([file, everywhere, elsewhere, of_another_spec], SPECS) == (elsewhere, of_another_spec)


def _judged(table: IcebergTable, planned: int, snapshot: int, *, left: frozenset[int] = frozenset()) -> str | None:
    storage = LocalStorage()
    metadata = read_table(str(table.metadata_file), storage)
    plan = Planned(snapshot=planned, sequence=metadata.by_id[planned].sequence, left=left)
    manifests = manifests_of(metadata.by_id[snapshot], storage)
    return refusal(plan, snapshot=snapshot, manifests=manifests, metadata=metadata, storage=storage)


def test_a_rewrite_that_drops_a_delete_of_after_its_plan_is_refused(tmp_path: Path) -> None:
    """The rewrite may drop the deletes that were there at its plan."""
    table = IcebergTable(tmp_path / "trips")
    old = table.file(content=EQUALITY_DELETES)
    table.append()
    planned = table.commit("delete", add=[old])
    newer = table.file(content=EQUALITY_DELETES)
    table.commit("delete", add=[newer])
    table.append()
    files_of_plan = [one for one in table.live() if one.content == DATA][:1]

    well = table.commit("replace", add=[table.file()], remove=[*files_of_plan, old], sequence=planned and 2)
    assert _judged(table, planned, well) is None
    ill = table.commit("replace", remove=[newer])
    assert "deletes be lost" in str(_judged(table, planned, ill))


def test_a_rewrite_that_takes_files_out_of_a_spec_by_which_was_deleted_meanwhile_is_refused(tmp_path: Path) -> None:
    """A rewrite that leaves the files in the spec is allowed."""
    table = IcebergTable(tmp_path / "trips")
    planned = table.append()
    table.commit("delete", add=[table.file(content=EQUALITY_DELETES)])
    made = table.commit("replace", add=[table.file()], remove=[table.live()[0]], sequence=1)

    assert "partition spec 0" in str(_judged(table, planned, made, left=frozenset({0})))
    assert _judged(table, planned, made) is None
    assert _judged(table, made, made, left=frozenset({0})) is None


def _schema(number: int, **columns: tuple[int, Any]) -> dict[str, Any]:
    fields = [{"id": at, "name": name, "required": False, "type": kind} for name, (at, kind) in columns.items()]
    return {"type": "struct", "schema-id": number, "fields": fields}


@pytest.mark.parametrize(
    ("now", "name", "told"),
    [
        ({"v": (2, "string")}, "k", "SetCurrentSchemaUpdate(schema_id=0)"),
        (
            {"v": (2, "string"), "w": (4, "int")},
            "k",
            'find_field(1).model_copy(update={"name": "dropped_1"}), schema_id=2',
        ),
        ({"w": (2, "string")}, "k", "AddSchemaUpdate"),
        ({"k": (1, "int"), "v": (2, {"type": "struct", "fields": []})}, "v.k", "in its struct, as schema 0 has it"),
        ({"k": (1, "int"), "v": (2, "string")}, None, ""),
    ],
)
def test_live_equality_deletes_on_a_dropped_column_hold_back_what_reads_rows_and_clean(
    now: dict[str, Any], name: str | None, told: str
) -> None:
    """The former schema is made current only if it has all columns of today, as they are today."""
    inner = {"type": "struct", "fields": [{"id": 3, "name": "k", "required": False, "type": "int"}]}
    former = {"k": (1, "int"), "v": (2, inner if name == "v.k" else "string")}
    deletes_by = 3 if name == "v.k" else 1
    raw = {"schemas": [_schema(0, **former), _schema(1, **now)], "current-schema-id": 1}
    metadata = a_metadata(dropped=dropped_in(raw), schemas=frozenset({0, 1}))
    file = ContentFile(
        path="/lake/eq.parquet",
        content=FileContent.EQUALITY_DELETES,
        status=EntryStatus.ADDED,
        file_format="PARQUET",
        spec=0,
        partition="",
        size=1,
        records=1,
        snapshot=1,
        sequence=1,
        equality_ids=(deletes_by,),
    )
    found = list(blocked_by_dropped_columns([ManifestDigest([file], spec=0)], metadata))
    assert [one.reason.split(", which")[0] for one in found] == (
        [f"/lake/eq.parquet deletes rows by the column {name} (field {deletes_by})"] if name else []
    )
    assert all(told in one.remedy and Service.CLEAN in (one.services or ()) for one in found)
