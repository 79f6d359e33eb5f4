"""Old schemas and partition specs go only when no writer can have one of them in mind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.deletion.unused_metadata import Unused, unused, why_all_stay
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from tests.support.iceberg.iceberg_history import DAY, History
from tests.support.values import NOW

OUTAGE = IcebergTableOptions.model_validate({"longest_outage": "2d"})


def table(*schemas: int, days: int = 5, current: int = 9, default: int = 9, flink: bool = False) -> TableMetadata:
    """Return a table with a snapshot each `days` apart by these schemas, the last of them an hour ago, and ten schemas
    and specs.
    """
    history = History(at=NOW - timedelta(hours=1) - DAY * days * (len(schemas) - 1))
    for at, schema in enumerate(schemas):
        history.commit(checkpoint=("abc", "op", at) if flink else None)
        history.snapshots[at] = replace(history.snapshots[at], schema=schema)
        history.at += days * DAY
    return replace(
        history.metadata(),
        schemas=frozenset(range(10)),
        current_schema=current,
        specs=dict.fromkeys(range(10), ()),
        default_spec=default,
    )


def found(metadata: TableMetadata, specs: Mapping[int, set[int]] | None = None) -> Unused:
    """Return what may be removed, where each snapshot has manifests of these specs; of its schema's number if none."""

    def specs_of(snapshot: object) -> frozenset[int]:
        one = getattr(snapshot, "id", 0)
        return frozenset((specs or {}).get(one, {metadata.by_id[one].schema or 0}))

    return unused(metadata, OUTAGE, NOW, specs_of=specs_of)


def test_what_was_replaced_before_the_outage_and_no_snapshot_has_may_go() -> None:
    """The snapshot of five days ago has 7: whoever loaded the table since found 7 or a later one in force."""
    assert found(table(3, 7, 9)) == Unused(schemas=frozenset({0, 1, 2, 4, 5, 6}), specs=frozenset({0, 1, 2, 4, 5, 6}))


def test_what_was_in_force_within_the_outage_stays() -> None:
    """8 may have been in force an hour ago, although no snapshot has it: a writer may be about to commit by it."""
    of = found(table(3, 7, 9))
    assert not {7, 8, 9} & (of.schemas | of.specs)
    assert found(table(3, 7, 9, days=1)) == Unused(schemas=frozenset({0, 1, 2}), specs=frozenset({0, 1, 2}))
    assert found(table(7, 9, days=1)).is_nothing, "nothing is known of before the outage"


def test_what_is_in_force_stays_although_it_is_old() -> None:
    """A table may come back to an earlier schema, and to an earlier spec."""
    of = found(table(3, 7, 9, current=2, default=1))
    assert of == Unused(schemas=frozenset({0, 1, 4, 5, 6}), specs=frozenset({0, 2, 4, 5, 6}))


def test_a_spec_of_old_files_stays() -> None:
    """A manifest of it is in a snapshot, whenever it was written."""
    assert found(table(7, 7, 9), {1: {7}, 2: {7, 1}, 3: {9, 1}}).specs == frozenset({0, 2, 3, 4, 5, 6})


def test_a_table_to_which_flink_commits_keeps_them_all_and_says_so() -> None:
    """A job writes by the spec with which it was started, for as long as it runs."""
    metadata = table(3, 7, 9, flink=True)
    assert found(metadata).is_nothing
    assert why_all_stay(metadata) == (
        "old schemas and partition specs stay: Flink job abc writes by those with which it was started"
    )
    assert why_all_stay(table(3, 7, 9)) is None


def test_a_snapshot_that_does_not_say_its_schema_keeps_all_schemas() -> None:
    """Version 1 need not say it."""
    metadata = table(3, 7, 9)
    silent = replace(metadata.snapshots[0], schema=None)
    one = replace(metadata, snapshots=(silent, *metadata.snapshots[1:]), by_id={**metadata.by_id, 1: silent})
    assert found(one, {1: {3}}).schemas == frozenset()
    assert found(replace(metadata, snapshots=(), by_id={}, current=None)).is_nothing


@given(schemas=st.lists(st.integers(0, 9), min_size=1, max_size=6), days=st.sampled_from([1, 3]))
def test_nothing_goes_that_a_snapshot_has_or_that_is_in_force(schemas: list[int], days: int) -> None:
    """Iceberg's own rule is kept in any case, and for snapshots that are about to expire, too."""
    of = found(table(*schemas, days=days))
    assert not (of.schemas | of.specs) & {*schemas, 9}
