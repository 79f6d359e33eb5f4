"""The groups that Iceberg's planner would rewrite, determined without it. The comparison with the real planner is in
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
from lakewarden.planners.formats.iceberg.metadata.manifests import FileContent
from lakewarden.planners.formats.iceberg.metadata.metadata import PartitionField
from lakewarden.planners.formats.iceberg.options.service_options import RewriteOptions
from lakewarden.planners.formats.iceberg.rewriting.choosing import choose
from lakewarden.planners.formats.iceberg.rewriting.groups import Group, file_groups
from lakewarden.planners.formats.iceberg.rewriting.selection import (
    ContradictoryThresholdsError,
    Thresholds,
    thresholds,
)
from tests.support.iceberg.iceberg_values import MIB, a_file, a_metadata, deletes_of, files

TABLE = a_metadata()
FULL = 512 * MIB
"""A file of the default target size, which needs no rewrite."""


def rules(*, everything: bool = False, **options: Any) -> Thresholds:
    """Return the thresholds of these options on a table without properties."""
    return thresholds(RewriteOptions(**options), {}, everything=everything)


def groups(found: Sequence[LiveFile], *, everything: bool = False, **options: Any) -> list[int]:
    """Return the sizes of the groups of files that would be rewritten."""
    return [group.files for group in file_groups(found, TABLE, rules(everything=everything, **options))]


def test_small_files_of_a_partition_are_rewritten_from_five_on() -> None:
    """Files below three quarters of the target count. Five of one partition are a group, four are none."""
    assert groups(files(5)) == [5]
    assert groups(files(4)) == []
    assert groups(files(4) + files(4, "p=1")) == []
    assert groups(files(5, size=FULL)) == []


def test_fewer_are_rewritten_where_they_make_a_whole_file() -> None:
    """Two files with more than the target together are a group. One file alone is never one, unless it is too large."""
    assert groups(files(2, size=300 * MIB)) == [2]
    assert groups(files(1, size=300 * MIB)) == []
    assert groups(files(1, size=10 * FULL)) == [1]


@pytest.mark.parametrize(("rows_deleted", "rewritten"), [(29, []), (30, [1]), (500, [1])])
def test_a_file_is_rewritten_when_its_own_deletes_reach_the_ratio(rows_deleted: int, rewritten: list[int]) -> None:
    """By default the ratio is three in ten rows, counted by position deletes for this file alone."""
    file = a_file(size=FULL)
    assert groups([file, deletes_of(file, records=rows_deleted)]) == rewritten


def test_a_files_own_deletes_are_no_older_than_it() -> None:
    """An older delete belongs to an earlier file under the same path. It deletes nothing of this one."""
    file = a_file(size=FULL, sequence=5)
    assert groups([file, deletes_of(file, records=100, sequence=4)]) == []
    assert groups([file, deletes_of(file, records=100, sequence=5)]) == [1]


def test_shared_deletes_have_no_ratio_and_count_for_the_threshold() -> None:
    """The number of rows that a delete file of a partition, or an equality delete, deletes in one file is not known."""
    file = a_file(size=FULL)
    shared = [deletes_of(file, references=None, records=100) for _ in range(2)]
    by_equality = deletes_of(file, references=None, records=100, content=FileContent.EQUALITY_DELETES)

    assert groups([file, *shared, by_equality]) == []
    assert groups([file, *shared, by_equality], delete_file_threshold=3) == [1]
    assert groups([file, *shared, by_equality], delete_file_threshold=4) == []


@pytest.mark.parametrize(
    ("content", "sequence", "applies"),
    [
        (FileContent.POSITION_DELETES, 4, False),
        (FileContent.POSITION_DELETES, 5, True),
        (FileContent.EQUALITY_DELETES, 5, False),
        (FileContent.EQUALITY_DELETES, 6, True),
    ],
)
def test_a_delete_applies_to_files_of_its_age(content: FileContent, sequence: int, applies: bool) -> None:
    """Position deletes apply to files of the same commit too, equality deletes only to files of earlier commits."""
    file = a_file(size=FULL, sequence=5)
    delete = a_file(content=content, sequence=sequence)
    assert groups([file, delete], delete_file_threshold=1) == ([1] if applies else [])


def test_deletes_of_another_partition_do_not_apply() -> None:
    """This holds for position and equality deletes. The exception is an equality delete of a spec without
    partitions.
    """
    file = a_file(size=FULL, sequence=1)
    elsewhere = [
        a_file("p=1", content=FileContent.POSITION_DELETES, sequence=2),
        a_file("p=1", content=FileContent.EQUALITY_DELETES, sequence=2),
    ]
    everywhere = a_file("", spec=1, content=FileContent.EQUALITY_DELETES, sequence=2)
    table = a_metadata(specs={0: TABLE.specs[0], 1: ()})

    of_one = rules(delete_file_threshold=1)
    assert not file_groups([file, *elsewhere], table, of_one)
    assert len(file_groups([file, everywhere], table, of_one)) == 1


def test_a_deletion_vector_stands_for_all_positions_of_its_file() -> None:
    """Version 3 keeps all positions in one place, and readers ignore older position deletes of the file."""
    file = a_file(size=FULL)
    vector = deletes_of(file, is_vector=True, records=40)
    older = deletes_of(file, records=100)

    assert groups([file, vector, older], delete_ratio_threshold=0.5) == []
    assert groups([file, vector, older], delete_ratio_threshold=0.4) == [1]
    assert groups([file, vector, older], delete_file_threshold=2, delete_ratio_threshold=1) == []


def test_files_of_old_specs_are_one_group_with_those_that_have_no_partition() -> None:
    """They are grouped as the partition of nulls, and the group knows their old partitions."""
    table = a_metadata(
        specs={0: (), 1: (PartitionField(field_id=1000, name="p", transform="identity"),)}, default_spec=1
    )
    old = [a_file("", spec=0), a_file("", spec=0), a_file("p=null", spec=1), *files(2, "p=null", spec=1)]
    found = file_groups([*old, *files(5, "p=1", spec=1)], table, rules())

    assert sorted(sorted(group.partitions) for group in found) == [["", "p=null"], ["p=1"]]


def test_groups_are_closed_at_their_bounds() -> None:
    """The bounds are bytes and files. The remaining files are rewritten only if they are a group by themselves."""
    assert groups(files(12), max_file_group_size=6 * MIB) == [6, 6]
    assert groups(files(12), max_files=7) == [7, 5]
    assert groups(files(11), max_files=7) == [7]


def test_everything_is_rewritten_where_that_is_asked() -> None:
    """Then sizes and numbers do not count."""
    assert groups(files(1, size=FULL) + files(2, "p=1"), everything=True) == [1, 2]


@pytest.mark.parametrize(
    "wrong", [{"min_file_size": FULL}, {"max_file_size": FULL}, {"target_file_size": 2 * FULL, "max_file_size": FULL}]
)
def test_sizes_that_the_planner_would_refuse_are_refused(wrong: dict[str, Any]) -> None:
    """The error names the three numbers."""
    with pytest.raises(ContradictoryThresholdsError, match=str(FULL)):
        rules(**wrong)


def test_the_tables_own_target_counts_where_none_is_set() -> None:
    """It must be a number of bytes."""
    assert thresholds(RewriteOptions(), {"write.target-file-size-bytes": "1000"}).target == 1000
    with pytest.raises(ContradictoryThresholdsError, match="'lots'"):
        thresholds(RewriteOptions(), {"write.target-file-size-bytes": "lots"})


PARTITIONS = st.sampled_from(["p=0", "p=1", "p=2", "p=null"])
SIZES = st.sampled_from([1, MIB, 300 * MIB, FULL, 3 * FULL])
DATA = st.builds(a_file, PARTITIONS, size=SIZES, sequence=st.integers(1, 5), records=st.integers(0, 100))
SHARED = st.builds(
    a_file,
    PARTITIONS,
    content=st.sampled_from([FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES]),
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
    """Each group has a reason: enough files, enough bytes, too many bytes, or deletes. No file is in two groups, no
    group has two partitions, and no group contains a delete file.
    """
    given_rules = rules(**options)
    by_key = {file.key: file for file in layout}
    made = file_groups(layout, TABLE, given_rules)

    for group in made:
        within = [by_key[key] for key in group.keys]
        assert {file.partition for file in within} == group.partitions
        assert len(group.partitions) == 1
        assert all(file.content is FileContent.DATA for file in within)
        assert sum(file.size for file in within) == group.bytes
        assert group.files == len(within) <= given_rules.group_files
        several = group.files > 1
        assert (
            (several and group.files >= given_rules.min_input_files)
            or (several and group.bytes > given_rules.target)
            or group.bytes > given_rules.largest
            or group.opened > group.files
        )
    assert max(Counter(key for group in made for key in group.keys).values(), default=1) == 1


@given(st.permutations(files(7) + files(9, "p=1") + files(6, "p=2", size=200 * MIB)), OPTIONS)
def test_the_order_in_which_files_are_read_changes_nothing(layout: list[LiveFile], options: dict[str, Any]) -> None:
    """The same table has the same groups, for any order of its manifests."""
    in_order = sorted(layout, key=lambda file: file.key)
    assert file_groups(layout, TABLE, rules(**options)) == file_groups(in_order, TABLE, rules(**options))


GROUPS = st.lists(
    st.builds(
        Group,
        partitions=st.frozensets(PARTITIONS, min_size=1, max_size=2),
        files=st.integers(1, 9),
        bytes=st.integers(1, 9),
        opened=st.integers(9, 20),
        oldest=st.integers(1, 9),
        keys=st.integers(0, 10**9).map(lambda key: (key,)),
    ),
    max_size=12,
)


@given(GROUPS, st.frozensets(PARTITIONS), st.integers(1, 30), st.integers(1, 30))
def test_a_run_takes_nothing_hot_and_no_more_than_it_may(
    made: list[Group], hot: frozenset[str], max_files: int, max_bytes: int
) -> None:
    """A run takes no group with a hot partition and never more files than allowed. It takes more bytes than allowed
    only with a single group. Every group is taken, left alone or left for later.
    """
    choice = choose(made, hot, RewriteOptions(max_files=max_files, max_bytes=max_bytes))

    assert all(hot.isdisjoint(group.partitions) for group in choice.takes)
    assert not any(hot.isdisjoint(group.partitions) for group in choice.left_alone)
    assert sum(group.files for group in choice.takes) <= max_files
    assert len(choice.takes) <= 1 or sum(group.bytes for group in choice.takes) <= max_bytes
    assert Counter((*choice.takes, *choice.left_alone, *choice.left)) == Counter(made)
    if any(hot.isdisjoint(group.partitions) and group.files <= max_files for group in made):
        assert choice.takes


def test_the_most_fragmented_partition_goes_first() -> None:
    """Readers gain most where they open most files. Among equals the older partition goes first."""
    few, many, old = (
        Group(partitions=frozenset({name}), files=5, bytes=5, opened=opened, oldest=oldest, keys=(oldest,))
        for name, opened, oldest in (("few", 5, 3), ("many", 50, 2), ("old", 5, 1))
    )
    choice = choose([few, many, old], (), RewriteOptions(max_files=10, max_bytes=100))

    assert choice.takes == (many, old)
    assert choice.left == (few,)
