"""What a rewrite must not do beside deletes by equality: told from what was read, without Iceberg."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile
from lakewarden.planners.formats.iceberg.metadata.files import manifests_of, read_table
from lakewarden.planners.formats.iceberg.metadata.manifests import Content
from lakewarden.planners.formats.iceberg.metadata.metadata import PartitionField, Snapshot, TableMetadata
from lakewarden.planners.formats.iceberg.options.service_options import RewriteOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.rewriting.deletes import anchored, are_expected, kept_specs, needless
from lakewarden.planners.formats.iceberg.rewriting.dropped import Planned, refusal
from lakewarden.planners.formats.iceberg.rewriting.groups import choose, file_groups, thresholds
from lakewarden.planners.model.instant import Service
from lakewarden.planners.storage import LocalStorage
from tests.support.iceberg_look import view_of
from tests.support.iceberg_table import DATA, EQUALITY_DELETES, IcebergTable
from tests.support.iceberg_values import MIB, a_file, a_metadata, a_snapshot, deletes_of, files
from tests.support.values import NOW

if TYPE_CHECKING:
    from pathlib import Path

BY_P = (PartitionField(field_id=1000, name="p", transform="identity"),)
BY_V = (PartitionField(field_id=1001, name="v", transform="identity"),)
SPECS = {0: BY_P, 1: (), 2: BY_V}
DAY = timedelta(days=1)


def evolved(*snapshots: Snapshot) -> TableMetadata:
    """Return a table that was partitioned by `p`, then not at all, and is by `v` now."""
    return a_metadata(*snapshots, specs=SPECS, default_spec=2)


def upserts(number: int, *, ago: timedelta, job: str | None = "j1") -> Snapshot:
    """Return a commit with deletes by equality."""
    commit = a_snapshot(number, ago=ago, operation="overwrite", added_equality_delete_files="1")
    return commit if job is None else replace(commit, summary={**commit.summary, "flink.job-id": job})


def equal(snapshot: int, *, spec: int = 0) -> LiveFile:
    """Return a live equality delete file."""
    return a_file(spec=spec, snapshot=snapshot, sequence=snapshot, content=Content.EQUALITY_DELETES)


def kept(found: list[LiveFile], *snapshots: Snapshot, **options: Any) -> set[int]:
    """Return the old specs in which rewritten files stay."""
    return set(kept_specs(found, evolved(*snapshots), IcebergTableOptions(**options), NOW))


def test_files_stay_in_the_spec_by_which_a_job_deletes() -> None:
    """As long as it may be restored; afterwards they are brought into the table's own."""
    assert kept([equal(1)], upserts(1, ago=DAY)) == {0}
    assert kept([equal(1)], upserts(1, ago=8 * DAY), a_snapshot(2, ago=DAY)) == set()
    assert kept([equal(1)], upserts(1, ago=8 * DAY), a_snapshot(2, ago=DAY), flink_restores="9d") == {0}


def test_a_job_that_writes_by_the_tables_own_spec_keeps_nothing() -> None:
    """Its deletes reach what is rewritten into it, and none of what is not. A job is one through all its commits."""
    assert kept([equal(1, spec=2)], upserts(1, ago=DAY)) == set()
    assert kept([equal(2, spec=2)], upserts(1, ago=DAY), upserts(2, ago=DAY)) == set()
    assert kept([equal(2, spec=2)], upserts(1, ago=DAY, job="j0"), upserts(2, ago=DAY)) == {0}


def test_where_no_delete_of_a_job_is_left_its_spec_may_be_any() -> None:
    """A rewrite has dropped them all; the job goes on. So does one of which no commit is known any more."""
    assert kept([], upserts(1, ago=DAY)) == {0}
    assert kept([], upserts(1, ago=DAY, job=None)) == {0}
    assert kept([equal(1)], a_snapshot(2, ago=DAY)) == {0}
    assert kept([equal(1)], a_snapshot(2, ago=8 * DAY), a_snapshot(3, ago=DAY)) == set()


def test_deletes_by_a_spec_without_partitions_reach_every_file() -> None:
    """Files of such a spec may leave it; and without any deletes by equality all may."""
    assert kept([equal(1, spec=1)], upserts(1, ago=DAY)) == set()
    assert kept([a_file()], a_snapshot(1, ago=DAY)) == set()


def test_kept_files_are_grouped_by_their_own_partitions() -> None:
    """And those of other specs as Iceberg's planner does it."""
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


def test_whoever_asks_is_told_that_files_stay_in_their_old_spec(tmp_path: Path) -> None:
    """With the reason; and the groups are those of the old partitions."""
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


DATA_FILES = st.lists(
    st.builds(a_file, st.sampled_from(["p=0", "p=1"]), sequence=st.integers(1, 4), size=st.sampled_from([1, MIB])),
    min_size=1,
    max_size=12,
)


@given(DATA_FILES, st.integers(1, 4), st.integers(0, 1))
def test_one_file_of_before_the_plan_is_left_wherever_something_is_rewritten_beside_it(
    found: list[LiveFile], at_least: int, others: int
) -> None:
    """Iceberg then drops no delete of after the plan. It is the newest that can be spared; else nothing is changed."""
    rules = thresholds(RewriteOptions(min_input_files=at_least), {})
    takes = choose(file_groups(found, a_metadata(), rules), (), max_files=1000, max_bytes=2**40).takes
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
    """Live ones, or those of a commit that is known."""
    assert are_expected([equal(1)], a_metadata())
    assert are_expected([], a_metadata(upserts(1, ago=DAY)))
    assert not are_expected([deletes_of(a_file())], a_metadata(a_snapshot(1, ago=DAY)))


def test_a_delete_is_needless_when_no_file_is_old_enough_for_it() -> None:
    """By equality older files are meant, by position also those of the same commit."""
    file = a_file(sequence=5)
    for sequence in (4, 5, 6):
        by_equality = a_file(sequence=sequence, content=Content.EQUALITY_DELETES)
        by_position = a_file(sequence=sequence, content=Content.POSITION_DELETES)
        of_it, of_none = deletes_of(file, sequence=sequence), deletes_of(file, sequence=sequence, references=-1)
        assert (by_equality in needless([file, by_equality], SPECS)) == (sequence <= 5)
        assert (by_position in needless([file, by_position], SPECS)) == (sequence < 5)
        assert (of_it in needless([file, of_it], SPECS)) == (sequence < 5)
        assert of_none in needless([file, of_none], SPECS)


def test_a_delete_without_a_partition_is_needed_by_files_of_every_spec() -> None:
    """One of another partition, or of the same name in another spec, by none of them."""
    file = a_file("p=0", spec=0, sequence=1)
    everywhere = a_file("", spec=1, sequence=2, content=Content.EQUALITY_DELETES)
    elsewhere = a_file("p=1", spec=0, sequence=2, content=Content.EQUALITY_DELETES)
    of_another_spec = a_file("p=0", spec=2, sequence=2, content=Content.EQUALITY_DELETES)

    assert needless([file, everywhere, elsewhere, of_another_spec], SPECS) == (elsewhere, of_another_spec)


def _judged(table: IcebergTable, planned: int, snapshot: int, *, left: frozenset[int] = frozenset()) -> str | None:
    storage = LocalStorage()
    metadata = read_table(str(table.metadata_file), storage)
    plan = Planned(snapshot=planned, sequence=metadata.by_id[planned].sequence, left=left)
    manifests = manifests_of(metadata.by_id[snapshot], storage)
    return refusal(plan, snapshot=snapshot, manifests=manifests, metadata=metadata, storage=storage)


def test_a_rewrite_that_drops_a_delete_of_after_its_plan_is_refused(tmp_path: Path) -> None:
    """It may drop those that it was planned with."""
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
    """Nothing is to say against one that leaves them in it."""
    table = IcebergTable(tmp_path / "trips")
    planned = table.append()
    table.commit("delete", add=[table.file(content=EQUALITY_DELETES)])
    made = table.commit("replace", add=[table.file()], remove=[table.live()[0]], sequence=1)

    assert "partition spec 0" in str(_judged(table, planned, made, left=frozenset({0})))
    assert _judged(table, planned, made) is None
    assert _judged(table, made, made, left=frozenset({0})) is None
