"""Which files a rewrite of all files takes, and when it has come to its end."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.options.service_options import RewriteOptions
from lakewarden.planners.formats.iceberg.rewriting.rewrite_all import Reach, mark_of
from lakewarden.planners.formats.iceberg.rewriting.selection import selection
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.view import Blocker
from tests.support.iceberg.iceberg_values import a_file, a_metadata, a_snapshot

HOUR = timedelta(hours=1)
REACH = Reach(sequence=5, snapshot=50)


@pytest.mark.parametrize(
    ("sequence", "snapshot", "within"),
    [
        pytest.param(1, 10, True, id="older"),
        pytest.param(5, 50, True, id="the-newest-file-at-that-time"),
        pytest.param(5, 60, False, id="rewritten-from-that-snapshot"),
        pytest.param(6, 60, False, id="written-later"),
        pytest.param(6, 70, False, id="rewritten-later"),
    ],
)
def test_only_files_from_before_the_request_that_were_not_rewritten_since_are_taken(
    sequence: int, snapshot: int, within: bool
) -> None:
    """A rewrite keeps the sequence number of its plan. So the snapshot decides among equal numbers."""
    assert REACH.has(a_file(sequence=sequence, snapshot=snapshot)) is within


@given(st.lists(st.integers(1, 3), max_size=20), st.integers(1, 4))
def test_a_rewrite_ends_however_writers_commit_beside_it(writes: list[int], most: int) -> None:
    """Each run rewrites at most so many files, as of a new plan. A writer adds files between the runs. After as many
    runs as the files of the beginning need, none is left, and no file was rewritten twice.
    """
    live = [a_file(key=number, sequence=number, snapshot=number) for number in range(1, 8)]
    newest, reach, key, runs = 7, Reach(sequence=7, snapshot=7), 100, 0
    rewritten: list[int] = []
    while left := [file for file in live if reach.has(file)]:
        runs += 1
        planned_from = newest
        newest += writes[runs % len(writes)] if writes else 0
        live += [a_file(key=key + i, sequence=i, snapshot=i) for i in range(planned_from + 1, newest + 1)]
        newest, key = newest + 1, key + 100
        taken = left[:most]
        rewritten += [file.key for file in taken]
        live = [file for file in live if file not in taken]
        live.append(a_file(key=key - 1, sequence=planned_from, snapshot=newest))
    assert sorted(rewritten) == [1, 2, 3, 4, 5, 6, 7]
    assert runs == -(-7 // most)


def test_the_mark_of_a_table_is_its_newest_snapshot() -> None:
    """It is read back from the text that the store keeps."""
    metadata = a_metadata(a_snapshot(1, ago=2 * HOUR), a_snapshot(2, ago=HOUR))

    mark = mark_of(metadata)

    assert isinstance(mark, str)
    assert Reach.of_text(mark) == Reach(sequence=metadata.by_id[2].sequence, snapshot=2)
    assert Reach.of_text(REACH.to_text()) == REACH


@pytest.mark.parametrize("mark", ["", "7", "7-", "-7", "seven-1", "1-2-3"])
def test_a_text_that_is_no_mark_is_refused(mark: str) -> None:
    """Nothing is rewritten by a guess."""
    with pytest.raises(PermanentError, match="is not a mark of a rewrite of all files"):
        Reach.of_text(mark)


def test_a_table_without_snapshots_or_sequence_numbers_is_refused_by_name() -> None:
    """In format version 1, files of before cannot be told from later ones. The remedy names the version."""
    empty, first = mark_of(a_metadata()), mark_of(a_metadata(replace(a_snapshot(1, ago=HOUR), sequence=0)))

    assert isinstance(empty, Blocker)
    assert isinstance(first, Blocker)
    assert "no snapshot" in empty.reason
    assert "format version 2" in first.remedy


def test_the_other_limits_of_a_rewrite_hold_for_it_too() -> None:
    """A file in a partition that the options exclude is never taken."""
    metadata = a_metadata(a_snapshot(1, ago=3 * HOUR), a_snapshot(2, ago=HOUR))
    may = selection(RewriteOptions(where="p = 0"), metadata, reach=Reach(sequence=2, snapshot=2))
    assert may.takes(a_file("p=0", sequence=1, snapshot=1))
    assert not may.takes(a_file("p=1", sequence=1, snapshot=1))
    assert not may.takes(a_file("p=0", sequence=3, snapshot=3))
