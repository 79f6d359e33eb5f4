"""What Iceberg's planner would rewrite, told without it. That it is told right is shown beside the real one, in
tests/integration/iceberg/test_prediction.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile
from lakewarden.planners.formats.iceberg.metadata.manifests import Content
from lakewarden.planners.formats.iceberg.metadata.metadata import PartitionField
from lakewarden.planners.formats.iceberg.options.service_options import RewriteOptions
from lakewarden.planners.formats.iceberg.rewriting.groups import (
    ContradictoryThresholdsError,
    Group,
    Thresholds,
    choose,
    file_groups,
    thresholds,
)
from tests.support.iceberg_values import MIB, a_file, a_metadata, deletes_of, files

TABLE = a_metadata()
FULL = 512 * MIB
"""A file of the size that is aimed at by default: nothing is wrong with it."""


def rules(*, everything: bool = False, **options: Any) -> Thresholds:
    """Return the thresholds of these options on a table without properties."""
    return thresholds(RewriteOptions(**options), {}, everything=everything)


def groups(found: Sequence[LiveFile], *, everything: bool = False, **options: Any) -> list[int]:
    """Return the sizes of the groups of files that would be rewritten."""
    return [group.files for group in file_groups(found, TABLE, rules(everything=everything, **options))]


def test_small_files_of_a_partition_are_rewritten_from_five_on() -> None:
    """Files below three quarters of the target count, five of one partition are a group, four are none."""
    assert groups(files(5)) == [5]
    assert groups(files(4)) == []
    assert groups(files(4) + files(4, "p=1")) == []
    assert groups(files(5, size=FULL)) == []


def test_fewer_are_rewritten_where_they_make_a_whole_file() -> None:
    """Two files that together have more than the target are a group; one alone never is, unless it is too large."""
    assert groups(files(2, size=300 * MIB)) == [2]
    assert groups(files(1, size=300 * MIB)) == []
    assert groups(files(1, size=10 * FULL)) == [1]


@pytest.mark.parametrize(("rows_deleted", "rewritten"), [(29, []), (30, [1]), (500, [1])])
def test_a_file_is_rewritten_when_its_own_deletes_reach_the_ratio(rows_deleted: int, rewritten: list[int]) -> None:
    """Three in ten rows by default, told by position deletes that are for this file alone."""
    file = a_file(size=FULL)
    assert groups([file, deletes_of(file, records=rows_deleted)]) == rewritten


def test_a_files_own_deletes_are_no_older_than_it() -> None:
    """One that is older is of a file that was there before under the same path, and deletes nothing of this one."""
    file = a_file(size=FULL, sequence=5)
    assert groups([file, deletes_of(file, records=100, sequence=4)]) == []
    assert groups([file, deletes_of(file, records=100, sequence=5)]) == [1]


def test_shared_deletes_have_no_ratio_and_count_for_the_threshold() -> None:
    """Nobody knows how many rows of a file a delete file of its partition, or one by equality, deletes."""
    file = a_file(size=FULL)
    shared = [deletes_of(file, references=None, records=100) for _ in range(2)]
    by_equality = deletes_of(file, references=None, records=100, content=Content.EQUALITY_DELETES)

    assert groups([file, *shared, by_equality]) == []
    assert groups([file, *shared, by_equality], delete_file_threshold=3) == [1]
    assert groups([file, *shared, by_equality], delete_file_threshold=4) == []


@pytest.mark.parametrize(
    ("content", "sequence", "applies"),
    [
        (Content.POSITION_DELETES, 4, False),
        (Content.POSITION_DELETES, 5, True),
        (Content.EQUALITY_DELETES, 5, False),
        (Content.EQUALITY_DELETES, 6, True),
    ],
)
def test_a_delete_applies_to_files_of_its_age(content: Content, sequence: int, applies: bool) -> None:
    """Positions are deleted in files of the same commit too, equal rows only in those of earlier ones."""
    file = a_file(size=FULL, sequence=5)
    delete = a_file(content=content, sequence=sequence)
    assert groups([file, delete], delete_file_threshold=1) == ([1] if applies else [])


def test_deletes_of_another_partition_do_not_apply() -> None:
    """Neither by position nor by equality, unless they are of a spec without partitions and delete by equality."""
    file = a_file(size=FULL, sequence=1)
    elsewhere = [
        a_file("p=1", content=Content.POSITION_DELETES, sequence=2),
        a_file("p=1", content=Content.EQUALITY_DELETES, sequence=2),
    ]
    everywhere = a_file("", spec=1, content=Content.EQUALITY_DELETES, sequence=2)
    table = a_metadata(specs={0: TABLE.specs[0], 1: ()})

    of_one = rules(delete_file_threshold=1)
    assert not file_groups([file, *elsewhere], table, of_one)
    assert len(file_groups([file, everywhere], table, of_one)) == 1


def test_a_deletion_vector_stands_for_all_positions_of_its_file() -> None:
    """Version 3 keeps them in one place: older position deletes of the file are not read any more."""
    file = a_file(size=FULL)
    vector = deletes_of(file, is_vector=True, records=40)
    older = deletes_of(file, records=100)

    assert groups([file, vector, older], delete_ratio_threshold=0.5) == []
    assert groups([file, vector, older], delete_ratio_threshold=0.4) == [1]
    assert groups([file, vector, older], delete_file_threshold=2, delete_ratio_threshold=1) == []


def test_files_of_old_specs_are_one_group_with_those_that_have_no_partition() -> None:
    """What was partitioned otherwise is grouped as the partition of nulls, and knows which partitions it was in."""
    table = a_metadata(
        specs={0: (), 1: (PartitionField(field_id=1000, name="p", transform="identity"),)}, default_spec=1
    )
    old = [a_file("", spec=0), a_file("", spec=0), a_file("p=null", spec=1), *files(2, "p=null", spec=1)]
    found = file_groups([*old, *files(5, "p=1", spec=1)], table, rules())

    assert sorted(sorted(group.partitions) for group in found) == [["", "p=null"], ["p=1"]]


def test_groups_are_closed_at_their_bounds() -> None:
    """By bytes and by files, and what is left over is only rewritten if it is worth it by itself."""
    assert groups(files(12), max_file_group_size=6 * MIB) == [6, 6]
    assert groups(files(12), max_files=7) == [7, 5]
    assert groups(files(11), max_files=7) == [7]


def test_everything_is_rewritten_where_that_is_asked() -> None:
    """Then neither sizes nor numbers matter."""
    assert groups(files(1, size=FULL) + files(2, "p=1"), everything=True) == [1, 2]


@pytest.mark.parametrize(
    "wrong", [{"min_file_size": FULL}, {"max_file_size": FULL}, {"target_file_size": 2 * FULL, "max_file_size": FULL}]
)
def test_sizes_that_the_planner_would_refuse_are_refused(wrong: dict[str, Any]) -> None:
    """With the three numbers, so that it can be seen which is wrong."""
    with pytest.raises(ContradictoryThresholdsError, match=str(FULL)):
        rules(**wrong)


def test_the_tables_own_target_counts_where_none_is_set() -> None:
    """It has to be a number of bytes."""
    assert thresholds(RewriteOptions(), {"write.target-file-size-bytes": "1000"}).target == 1000
    with pytest.raises(ContradictoryThresholdsError, match="'lots'"):
        thresholds(RewriteOptions(), {"write.target-file-size-bytes": "lots"})


PARTITIONS = st.sampled_from(["p=0", "p=1", "p=2", "p=null"])
SIZES = st.sampled_from([1, MIB, 300 * MIB, FULL, 3 * FULL])
DATA = st.builds(a_file, PARTITIONS, size=SIZES, sequence=st.integers(1, 5), records=st.integers(0, 100))
SHARED = st.builds(
    a_file,
    PARTITIONS,
    content=st.sampled_from([Content.POSITION_DELETES, Content.EQUALITY_DELETES]),
    sequence=st.integers(1, 6),
)
LAYOUTS = st.tuples(st.lists(DATA, max_size=30), st.lists(SHARED, max_size=6)).map(lambda both: both[0] + both[1])
OPTIONS = st.fixed_dictionaries(
    {
        "min_input_files": st.integers(1, 6),
        "delete_file_threshold": st.none() | st.integers(1, 4),
        "max_file_group_size": st.sampled_from([MIB, 400 * MIB, 10 * FULL]),
        "max_files": st.integers(1, 20),
    }
)


@given(LAYOUTS, OPTIONS)
def test_no_group_is_made_that_would_do_nothing(layout: list[LiveFile], options: dict[str, Any]) -> None:
    """Each has a reason: enough files, enough bytes, too many bytes, or deletes; no file is in two of them, none is of
    another partition, and none is a delete file.
    """
    given_rules = rules(**options)
    by_key = {file.key: file for file in layout}
    made = file_groups(layout, TABLE, given_rules)

    for group in made:
        within = [by_key[key] for key in group.keys]
        assert {file.partition for file in within} == group.partitions
        assert len(group.partitions) == 1
        assert all(file.content is Content.DATA for file in within)
        assert sum(file.size for file in within) == group.bytes
        assert group.files == len(within) <= given_rules.group_files
        several = group.files > 1
        assert (
            (several and group.files >= given_rules.min_input_files)
            or (several and group.bytes > given_rules.target)
            or group.bytes > given_rules.largest
            or group.pieces > group.files
        )
    assert max(Counter(key for group in made for key in group.keys).values(), default=1) == 1


@given(st.permutations(files(7) + files(9, "p=1") + files(6, "p=2", size=200 * MIB)), OPTIONS)
def test_the_order_in_which_files_are_read_changes_nothing(layout: list[LiveFile], options: dict[str, Any]) -> None:
    """The same table has the same groups, whichever manifest was read first."""
    in_order = sorted(layout, key=lambda file: file.key)
    assert file_groups(layout, TABLE, rules(**options)) == file_groups(in_order, TABLE, rules(**options))


GROUPS = st.lists(
    st.builds(
        Group,
        partitions=st.frozensets(PARTITIONS, min_size=1, max_size=2),
        files=st.integers(1, 9),
        bytes=st.integers(1, 9),
        pieces=st.integers(9, 20),
        oldest=st.integers(1, 9),
        keys=st.integers(0, 10**9).map(lambda key: (key,)),
    ),
    max_size=12,
)


@given(GROUPS, st.frozensets(PARTITIONS), st.integers(1, 30), st.integers(1, 30))
def test_a_run_takes_nothing_hot_and_no_more_than_it_may(
    made: list[Group], hot: frozenset[str], max_files: int, max_bytes: int
) -> None:
    """No group with a hot partition is taken, never more files than allowed, more bytes only with a single group; and
    every group is taken, left alone or left.
    """
    choice = choose(made, hot, max_files=max_files, max_bytes=max_bytes)

    assert all(hot.isdisjoint(group.partitions) for group in choice.takes)
    assert not any(hot.isdisjoint(group.partitions) for group in choice.left_alone)
    assert sum(group.files for group in choice.takes) <= max_files
    assert len(choice.takes) <= 1 or sum(group.bytes for group in choice.takes) <= max_bytes
    assert Counter((*choice.takes, *choice.left_alone, *choice.left)) == Counter(made)
    if any(hot.isdisjoint(group.partitions) and group.files <= max_files for group in made):
        assert choice.takes


def test_the_most_fragmented_partition_goes_first() -> None:
    """Readers gain most where they open most; among equals the older goes first."""
    few, many, old = (
        Group(partitions=frozenset({name}), files=5, bytes=5, pieces=pieces, oldest=oldest, keys=(oldest,))
        for name, pieces, oldest in (("few", 5, 3), ("many", 50, 2), ("old", 5, 1))
    )
    choice = choose([few, many, old], (), max_files=10, max_bytes=100)

    assert choice.takes == (many, old)
    assert choice.left == (few,)
