"""A file of the timeline may have any size. It is read in pieces, once, and holds nothing else back."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from lakewarden.executors.contract import Assignment
from lakewarden.executors.programs.hudi.client.opened import OpenTable
from lakewarden.executors.programs.hudi.client.write_client import HudiClient
from lakewarden.planners.decoding import window
from lakewarden.planners.formats.hudi import THOROUGH
from lakewarden.planners.formats.hudi.deletion.foreign import foreign_plan_for
from lakewarden.planners.formats.hudi.deletion.guard import clean_overlaps
from lakewarden.planners.formats.hudi.metadata import payloads, tokens
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import PlanSize, RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.planners.ports import Observation
from lakewarden.planners.storage import LocalStorage, storage_for
from tests.support.hudi.hudi_look import made, registered
from tests.support.hudi.hudi_table import HudiTable
from tests.unit.planners.formats.hudi.test_fixtures import NAMES, unpacked, view_of


@dataclass
class MeteredStorage(LocalStorage):
    """Counts the bytes that were read."""

    bytes_read: int = 0

    def read(self, location: str, *, limit: int = 2**26) -> bytes:
        return self._counted(super().read(location, limit=limit))

    def read_part(self, location: str, *, begin: int, size: int) -> bytes:
        return self._counted(super().read_part(location, begin=begin, size=size))

    def _counted(self, content: bytes) -> bytes:
        self.bytes_read += len(content)
        return content


def looked(table: HudiTable, storage: LocalStorage, previous: Observation | None = None) -> Observation:
    wanted = registered(table, Service.CLEAN, Service.COMPACTION)
    return THOROUGH.observe(wanted, storage, previous, now=table.clock.now())


def _assignment(table: HudiTable) -> Assignment:
    location, service = str(table.folder), Service.CLEAN
    return Assignment(
        run=RunId("run-1"), epoch=1, table=TableId("trips"), format="hudi", location=location, service=service
    )


@pytest.fixture
def _cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every file as a large one, and cut it as often as possible."""
    monkeypatch.setattr(payloads, "LARGE", 0)
    monkeypatch.setattr(tokens, "LARGE", 0)
    monkeypatch.setattr(window, "WINDOW", 64)


@pytest.mark.parametrize("name", NAMES)
def test_a_table_read_in_pieces_is_the_same_table(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Everything that Hudi 0.15, 1.0 and 1.2 write is read through the smallest window."""
    folder, at = unpacked(name, tmp_path), datetime(2026, 1, 1, tzinfo=UTC)
    whole = replace(view_of(folder, by=THOROUGH), observed_at=at)
    request.getfixturevalue("_cut")
    assert replace(view_of(folder, by=THOROUGH), observed_at=at) == whole


@pytest.mark.long
def test_a_first_cleans_plan_is_read_once_and_blocks_nothing(tmp_path: Path) -> None:
    """A plan of 410,000 files has more than 64 MiB. It blocked its table for ever, and was read at each poll."""
    table, storage = made(tmp_path), MeteredStorage()
    table.write({"p0": []})
    name = "/".join(["a-long-name-of-a-folder"] * 34)
    files = tuple(f"{name}/group{n // 5:06}-0_0-1-2_2026010100000{n % 5}000.parquet" for n in range(80_000))
    clean = table.plan_clean(files={"p0": files})
    size = (table.timeline / f"{clean}.clean.requested").stat().st_size
    assert size > 64 * 2**20
    first = looked(table, storage)
    (plan,) = first.view.timeline.pending(Service.CLEAN)
    assert (first.view.faults, first.view.warnings, first.view.blockers) == ((), (), ())
    assert plan.plan == PlanSize(file_groups=16_000, bytes=None)
    storage.bytes_read = 0
    table.clock.advance(timedelta(seconds=5))
    assert looked(table, storage, first).view.timeline == first.view.timeline
    assert storage.bytes_read < 100_000


def test_what_is_larger_than_anything_is_not_read_and_holds_nothing_back(tmp_path: Path) -> None:
    """An operator is told. The executor of the plan cannot read it either, and refuses it."""
    table, storage = made(tmp_path), MeteredStorage()
    table.write({"p0": []})
    plan = table.plan_compaction()
    os.truncate(table.timeline / f"{plan}.compaction.requested", 2**31)  # a sparse file
    view = looked(table, storage).view
    assert (view.faults, view.blockers) == ((), ())
    assert any(f"{plan}.compaction.requested is larger than 1GiB" in warning for warning in view.warnings)
    assert [one.plan for one in view.timeline.pending(Service.COMPACTION)] == [None]
    assert storage.bytes_read < 100_000
    for refused in (
        lambda: foreign_plan_for(Service.COMPACTION, str(table.folder), storage),
        lambda: clean_overlaps(str(table.folder), storage, instant=table.plan_clean(files={"p0": ("a.parquet",)})),
    ):
        with pytest.raises(TemporaryError, match="larger than 1GiB"):
            refused()


def test_a_large_file_that_is_damaged_is_a_fault_and_is_not_read_again_until_it_changes(tmp_path: Path) -> None:
    """It is the same file at the next poll."""
    table, storage = made(tmp_path), MeteredStorage()
    name = f"{table.plan_compaction()}.compaction.requested"
    content = (table.timeline / name).read_bytes()
    table.put(name, content + bytes(20 * 2**20))
    first = looked(table, storage)
    assert first.view.faults == (f"{name} cannot be read: its Avro content is half-written or damaged",)
    storage.bytes_read = 0
    again = looked(table, storage, first)
    assert (again.view.faults, storage.bytes_read < 100_000) == (first.view.faults, True)
    table.put(name, content)
    assert looked(table, storage, again).view.faults == ()


@pytest.mark.usefixtures("_cut")
@pytest.mark.parametrize("version", [6, 9])
def test_the_guard_and_the_program_see_every_file_of_a_plan_in_pieces(tmp_path: Path, version: int) -> None:
    """The clean does not delete a needed file, whichever piece names it. Each file is counted once."""
    table = made(tmp_path, version=version)
    names = {f"p{p}": tuple(f"g{n}-0_0-1-2_20260101000000000.parquet" for n in range(40)) for p in range(5)}
    clean = table.plan_clean(files=names)
    table.plan_compaction(files={f"p{p}": (names[f"p{p}"][p],) for p in range(5)})
    storage = storage_for(str(table.folder))
    overlaps = clean_overlaps(str(table.folder), storage, instant=clean)
    assert {(o.file.partition, o.file.name) for o in overlaps} == {(f"p{p}", names[f"p{p}"][p]) for p in range(5)}
    opened = OpenTable(
        client=cast("HudiClient", None),
        assignment=_assignment(table),
        options=HudiTableOptions(),
        storage=storage,
        clock=SystemClock(),
    )
    size = opened.clean_size(clean)
    assert (size.files, size.file_groups) == (200, 200)
    (seen,) = looked(table, LocalStorage()).view.timeline.pending(Service.COMPACTION)
    assert seen.plan == PlanSize(file_groups=5, bytes=0)


@pytest.mark.usefixtures("_cut")
def test_a_foreign_path_is_found_in_whatever_piece_it_is(tmp_path: Path) -> None:
    """All pieces are judged."""
    table = made(tmp_path)
    files = {f"p{p}": tuple(f"g{n}-0_0-1-2_20260101000000000.parquet" for n in range(40)) for p in range(3)}
    table.plan_clean(files={**files, "../../elsewhere": ("a.parquet",)})
    assert foreign_plan_for(Service.CLEAN, str(table.folder), storage_for(str(table.folder))) is not None
    assert looked(table, LocalStorage()).view.blockers
