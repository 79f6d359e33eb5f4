"""The survey of a Paimon table knows each file by the names that its snapshots give it."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.formats.paimon.surveying import SURVEYOR
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service
from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.surveying.contents import Contents
from tests.support.paimon.paimon_look import registered
from tests.support.paimon.paimon_table import PaimonTable


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def put(table: PaimonTable, name: str, size: int, *, at: float) -> None:
    file = table.folder / "p=0" / "bucket-0" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size)
    os.utime(file, (at, at))


def contents_of(table: PaimonTable, clock: ManualClock) -> Contents:
    """Write the files that any snapshot has named, and survey the table."""
    for manifests in table.manifests.values():
        for one in (entry for manifest in manifests for _, entry in manifest.entries):
            put(table, one.name, one.size, at=clock.now().timestamp())
    asked = replace(registered(table), policies=SURVEYOR.policies)
    return SURVEYOR.survey(asked, LocalStorage(), now=clock.now()).contents


def test_files_of_level_0_are_to_be_merged(tmp_path: Path, clock: ManualClock) -> None:
    """The other levels are live, and a full compaction reads both and leaves one file for each bucket."""
    table = PaimonTable(tmp_path / "t", clock)
    table.append(table.file(size=100))
    table.compact()
    table.append(table.file(size=30))
    found = contents_of(table, clock)
    assert (found.live, found.deltas) == ((1, 100), (1, 30))
    assert found.old == (1, 100)
    assert found.versions == 3
    assert found.rewrites[Service.COMPACTION] == (2, 130, 1)


def test_an_old_file_without_a_name_is_an_orphan(tmp_path: Path, clock: ManualClock) -> None:
    """A young one may be of a write in flight."""
    table = PaimonTable(tmp_path / "t", clock, keyed=False)
    table.append(table.file(size=100))
    put(table, "data-lost-0.parquet", 7, at=clock.now().timestamp())
    assert contents_of(table, clock).unknown == (0, 0)
    clock.advance(timedelta(days=2))
    put(table, "data-young-0.parquet", 5, at=clock.now().timestamp())
    found = contents_of(table, clock)
    assert found.unknown == (1, 7)
    assert found.deletes[Service.ORPHANS] == (1, 7)


def test_a_clean_is_said_to_delete_what_may_expire(tmp_path: Path, clock: ManualClock) -> None:
    """By the table's own retention: a newest snapshot, and all of the last hour."""
    table = PaimonTable(tmp_path / "t", clock)
    table.alter(snapshot__num_retained__min="1", snapshot__time_retained="1h")
    table.append(table.file(size=100))
    clock.advance(timedelta(days=30))
    table.compact()
    clock.advance(timedelta(days=30))
    table.append(table.file(size=9))
    clock.advance(timedelta(days=30))
    found = contents_of(table, clock)
    assert found.old == (1, 100)
    assert found.deletes[Service.CLEAN] == (1, 100)


def test_a_table_without_its_files_says_so(tmp_path: Path, clock: ManualClock) -> None:
    """The figures of its manifests are there, and those of the listing are not."""
    table = PaimonTable(tmp_path / "t", clock)
    table.append()
    asked = replace(registered(table), policies=SURVEYOR.policies)
    found = SURVEYOR.survey(asked, LocalStorage(), now=clock.now()).contents
    assert found.deltas.files == 1
    assert any("not in its folder" in note for note in found.notes)
