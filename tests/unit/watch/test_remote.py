"""Tables of remote stores are read by readers: whoever asks is never kept waiting for a slow store."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.formats.fake import FAKE, FakeTable
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import MOST_ENTRIES, FileEntry
from lakewarden.planners.storage import LocalStorage
from lakewarden.service import watch as module
from lakewarden.service.watch import Watch

STORE = "slow:/"  # a store whose folders lie on the local disk


class SlowStore(LocalStorage):
    """A store that answers nothing while its gate is shut, and then what the local disk says."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.asked = threading.Semaphore(0)

    def stamp(self, location: str) -> str:
        self.asked.release()
        assert self.gate.wait(30)
        return super().stamp(location.removeprefix(STORE))

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        return super().listing(location.removeprefix(STORE), most=most)

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        return super().read(location.removeprefix(STORE), limit=limit)

    def changed_at(self, location: str) -> None:
        return None


class Scene:
    """A fake table in a slow store."""

    def __init__(self, folder: Path) -> None:
        self.lake = FakeTable.create(folder / "trips", clock=SystemClock())
        self.lake.write()
        self.table = Table(id=TableId("trips"), format="fake", location=f"{STORE}{self.lake.folder}")
        self.store = SlowStore()
        self.answered = threading.Semaphore(0)
        self.watch = Watch(
            formats={"fake": FAKE},
            storage_for=lambda _: self.store,
            clock=SystemClock(),
            answered=lambda _: self.answered.release(),
        )

    def until_answered(self) -> None:
        assert self.answered.acquire(timeout=30)

    def commits(self) -> int:
        return len(self.watch.look(self.table).observation.view.timeline.instants)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.store.gate.set()  # lets its readers end


def test_a_look_that_is_not_ready_is_told_of_when_it_is(scene: Scene) -> None:
    """Asking returns at once, however often, and begins one look."""
    assert not scene.watch.ready(scene.table, anew=False)
    assert not scene.watch.ready(scene.table, anew=False)
    scene.store.gate.set()
    scene.until_answered()

    assert scene.watch.ready(scene.table, anew=False)
    assert scene.watch.look(scene.table).news
    assert not scene.answered.acquire(blocking=False)


def test_a_table_that_became_dirty_while_it_was_read_is_looked_at_again(scene: Scene) -> None:
    """What was being read may be older than the hook."""
    scene.watch.ready(scene.table, anew=False)
    assert scene.store.asked.acquire(timeout=30)
    scene.watch.ready(scene.table, anew=True)
    scene.store.gate.set()
    scene.until_answered()
    scene.watch.look(scene.table)
    scene.lake.write()

    scene.until_answered()
    assert not scene.watch.ready(scene.table, anew=False)
    scene.until_answered()
    assert scene.commits() == 2


def test_a_look_brings_what_was_read_after_it(scene: Scene) -> None:
    """A run that ends is settled by a reading of its own. What was read before must not be decided on after that: the
    run's plan would be taken up once more.
    """
    scene.store.gate.set()
    scene.watch.ready(scene.table, anew=False)
    scene.until_answered()
    scene.lake.write()
    settled = scene.watch.read(scene.table)

    look = scene.watch.look(scene.table)

    assert look.observation is settled.observation
    assert look.news


def test_a_look_brings_the_tables_own_trouble(scene: Scene) -> None:
    """What the reader ran into is raised where the look is taken."""
    (scene.lake.folder / "fake.json").unlink()
    scene.store.gate.set()
    scene.watch.ready(scene.table, anew=False)
    scene.until_answered()

    with pytest.raises(PermanentError):
        scene.watch.look(scene.table)


def test_a_permit_waits_for_a_slow_store_but_not_for_long(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer in time the question stays open; with one, it is what the table says now."""
    monkeypatch.setattr(module, "PATIENCE", timedelta(milliseconds=50))
    with pytest.raises(TemporaryError, match=r"was not read within 0\.05 s"):
        scene.watch.read(scene.table)

    monkeypatch.setattr(module, "PATIENCE", timedelta(seconds=30))
    scene.store.gate.set()
    scene.lake.write()
    assert len(scene.watch.read(scene.table).observation.view.timeline.instants) == 2
