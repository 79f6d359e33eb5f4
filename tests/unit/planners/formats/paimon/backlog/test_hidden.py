"""Rows that readers do not see before a compaction."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service
from tests.support.paimon.paimon_look import view_of
from tests.support.paimon.paimon_table import PaimonTable

HIDING = [
    {"deletion-vectors.enabled": "true"},
    {"merge-engine": "first-row"},
    {"changelog-producer": "lookup"},
    {"changelog-producer": "full-compaction"},
]


def made(tmp_path: Path, options: dict[str, str]) -> tuple[PaimonTable, ManualClock]:
    clock = ManualClock()
    return PaimonTable(tmp_path / "t", clock=clock, options={"bucket": "1", "write-only": "true", **options}), clock


@pytest.mark.parametrize("options", HIDING, ids=str)
def test_the_first_write_after_a_compaction_tells_since_when_rows_are_hidden(
    tmp_path: Path, options: dict[str, str]
) -> None:
    """A compaction shows all of them, and the next write hides its own."""
    table, clock = made(tmp_path, options)
    assert view_of(table).unseen_since == {}
    first = clock.now()
    table.append()
    clock.advance(timedelta(minutes=5))
    table.append()
    assert view_of(table).unseen_since == {Service.COMPACTION: first}
    table.compact()
    assert view_of(table).unseen_since == {}
    clock.advance(timedelta(minutes=5))
    table.append()
    assert view_of(table).unseen_since == {Service.COMPACTION: clock.now()}


def test_what_a_compaction_has_left_out_is_hidden_since_then_at_least(tmp_path: Path) -> None:
    """It took another partition."""
    table, clock = made(tmp_path, HIDING[0])
    table.append(table.file(p=1), table.file(p=2))
    clock.advance(timedelta(minutes=5))
    table.compact(p=1)
    at = clock.now()
    clock.advance(timedelta(minutes=5))
    assert view_of(table).unseen_since == {Service.COMPACTION: at}


@pytest.mark.parametrize("user", ["lakewarden-1.manifests", "a-procedure"])
def test_an_archive_shows_no_row(tmp_path: Path, user: str) -> None:
    """It merges manifests alone, although its snapshot has the kind of a compaction."""
    table, clock = made(tmp_path, HIDING[0])
    table.append()
    first = clock.now()
    clock.advance(timedelta(hours=5))
    table.commit([], kind="COMPACT", user=user, merging=True)
    assert view_of(table).unseen_since == {Service.COMPACTION: first}


@pytest.mark.parametrize("options", [{}, {"changelog-producer": "input"}, {"merge-engine": "partial-update"}], ids=str)
def test_a_table_with_readers_that_merge_hides_nothing(tmp_path: Path, options: dict[str, str]) -> None:
    """They see level 0."""
    table, _ = made(tmp_path, options)
    table.append()
    assert view_of(table).unseen_since == {}
