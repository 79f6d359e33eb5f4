"""A store that does not answer holds up its own tables and no others."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.executors.fake_pool import FakePool
from lakewarden.planners.formats.fake import FakeTable
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.planners.ports import MOST_ENTRIES, FileEntry, Storage
from lakewarden.planners.storage import LocalStorage, Storages
from lakewarden.service.store.memory import MemoryStore
from lakewarden.service.store.port import RunState
from lakewarden.service.wiring import compose
from tests.support.road import COMPACT, Diary, RoadClock

FAR = "far:/"


class FarStore(LocalStorage):
    """A store whose folders lie on the local disk, and that answers when its gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def stamp(self, location: str) -> str:
        assert self.gate.wait(30)
        return super().stamp(location.removeprefix(FAR))

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        return super().listing(location.removeprefix(FAR), most=most)

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        return super().read(location.removeprefix(FAR), limit=limit)

    def changed_at(self, location: str) -> None:
        return None


class NearAndFar(Storages):
    """Local disks, and the far store."""

    def __init__(self) -> None:
        super().__init__()
        self.far = FarStore()

    def of(self, location: str) -> Storage:
        return self.far if location.startswith(FAR) else super().of(location)


@pytest.fixture
def storages() -> Iterator[NearAndFar]:
    storages = NearAndFar()
    yield storages
    storages.far.gate.set()  # lets the readers end


def test_other_tables_are_served_while_a_store_does_not_answer(tmp_path: Path, storages: NearAndFar) -> None:
    """The table that is far away is looked at as well, when its store has answered at last."""
    clock, store = RoadClock(), MemoryStore()
    lakes = {name: FakeTable.create(tmp_path / name, clock=clock) for name in ("near", "far")}
    for lake in lakes.values():
        for _ in range(3):
            lake.write()
    places = {"near": str(tmp_path / "near"), "far": f"{FAR}{tmp_path}/far"}
    room = compose(
        tables=[
            Table(id=TableId(name), format="fake", location=place, mode=Mode.ACT, policies=COMPACT)
            for name, place in places.items()
        ],
        pools={"default": FakePool(slots=2, clock=clock)},
        store=store,
        clock=clock,
        listener=Diary(),
        drain=timedelta(0),
        storages=storages,
        dice=random.Random(0),
    )
    clock.meanwhile = room.tenure.renew
    room.daemon.start()
    inbox = room.status._inbox
    for _ in range(100):
        clock.advance(timedelta(seconds=room.daemon.turn()))

    assert [(run.table, run.state) for run in store.runs()] == [("near", RunState.SUCCEEDED)]
    assert room.status._attention.looked(TableId("far"))[1] is None  # slow, and not in trouble

    storages.far.gate.set()
    inbox.wait(30)  # for the letter that the store has answered
    for _ in range(3):
        room.daemon.turn()
    assert "far" in {run.table for run in store.runs()}
