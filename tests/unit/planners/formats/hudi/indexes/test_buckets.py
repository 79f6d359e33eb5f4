"""What a table shows of its writers' bucket index."""

from __future__ import annotations

import random
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi.indexes.file_groups import named_after_buckets, shown_beside
from lakewarden.planners.formats.hudi.options.table_options import BucketIndex
from lakewarden.planners.storage import LocalStorage

A_MILLION = st.integers(min_value=0, max_value=999_999)


def bucket_file(number: int, *, log: bool = False) -> str:
    """Name a file as Hudi does: the bucket's number in the place of the first eight letters of a UUID."""
    group = f"{number:08d}{str(uuid.UUID(int=number * 7919))[8:]}-0"
    return f".{group}_20260101000000000.log.1_0-1-2" if log else f"{group}_0-1-2_20260101000000000.parquet"


def chance_file(chance: uuid.UUID) -> str:
    return f"{chance}-0_0-1-2_20260101000000000.parquet"


@given(st.integers(min_value=0, max_value=9_999), st.booleans(), st.lists(st.uuids(version=4), max_size=20))
def test_one_file_of_a_low_bucket_is_enough(number: int, log: bool, others: list[uuid.UUID]) -> None:
    """The plan may have others, too: an insert of another index, or a bulk insert, may have written those."""
    assert named_after_buckets([bucket_file(number, log=log), *map(chance_file, others)])


@given(st.sets(A_MILLION, min_size=2, max_size=50))
def test_a_plan_of_high_buckets_alone_is_recognised(numbers: set[int]) -> None:
    """A partition of 10,000 buckets and more has such a plan."""
    assert named_after_buckets([bucket_file(number) for number in numbers])


def test_names_by_chance_are_no_buckets() -> None:
    """One in 43 names by chance begins with eight digits. The 100,000 names are always the same."""
    chance = random.Random(1)
    names = [f"{uuid.UUID(int=chance.getrandbits(128), version=4)}-0" for _ in range(100_000)]
    assert sum(name[:8].isdigit() for name in names) > 1000
    assert not any(named_after_buckets(names[start : start + 1000]) for start in range(0, len(names), 1000))
    assert not named_after_buckets([])


@pytest.mark.parametrize(
    ("folder", "index"),
    [
        ("consistent_hashing_metadata/p0", BucketIndex.CONSISTENT_HASHING),
        ("partition_bucket_index_meta/configs", BucketIndex.SIMPLE),
        (".", None),
        ("../other", None),
    ],
)
def test_metadata_beside_the_table_tells_the_index(tmp_path: Path, folder: str, index: BucketIndex | None) -> None:
    """Hudi keeps it below `.hoodie/.bucket_index`."""
    (tmp_path / ".hoodie" / ".bucket_index" / folder).mkdir(parents=True)
    assert shown_beside(str(tmp_path), LocalStorage()) is index
