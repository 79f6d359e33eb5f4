"""Housekeeping holds nobody up: it breathes between its steps, ends when it is told to, and survives trouble."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median

import sqlalchemy as sa

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.control.housekeeping import BREATH_SECONDS, Keeping, tidy
from lakewarden.service.model.access import Act, ActKind
from lakewarden.service.model.rows import DecisionRow, ServiceStateRow
from lakewarden.service.model.run import RunState
from lakewarden.service.store.sql import schema
from lakewarden.service.store.sql.runs import _columns
from lakewarden.service.store.sql.sqlite import open_sqlite
from lakewarden.service.store.sql.store import Store
from tests.support.store.memory_store import MemoryStore
from tests.support.values import NOW, a_run

TRIPS = TableId("trips")
REGISTERED = {TRIPS: Table(id=TRIPS, format="hudi", location="/lake/trips")}
MONTH = timedelta(days=30)
KEEP = Keeping(runs=MONTH, acts=12 * MONTH, changes=MONTH)


def a_long_history(folder: Path, *, runs: int) -> Store:
    """Return a store of runs that are all to be forgotten, but for the last one."""
    store = open_sqlite(folder / "lakewarden.db")
    ended = {"state": RunState.SUCCEEDED, "created_at": NOW - 2 * MONTH, "ended_at": NOW - 2 * MONTH}
    rows = [{"number": n, **_columns(a_run(f"r{n}", instant=f"{n:08}", **ended))} for n in range(runs)]
    with store._write() as connection:
        connection.execute(sa.insert(schema.runs), rows)
    return store


def test_the_control_threads_writes_do_not_wait_for_it(tmp_path: Path) -> None:
    """While a long history is forgotten, a write takes about what it takes otherwise."""
    store = a_long_history(tmp_path, runs=5_000)
    over, waits = threading.Event(), list[float]()

    def write() -> None:
        while not over.is_set():
            begun = time.monotonic()
            store.keep_row(ServiceStateRow(table=TRIPS, service=Service.CLEAN, strikes=len(waits)))
            waits.append(time.monotonic() - begun)
            over.wait(0.01)

    writer = threading.Thread(target=write)
    writer.start()
    begun = time.monotonic()
    forgotten = tidy(store, registered=REGISTERED, at=NOW, keep=KEEP, pause=threading.Event().wait)
    forgetting = time.monotonic() - begun
    over.set()
    writer.join()

    assert forgotten == 4_999
    assert len(waits) > 20
    assert median(waits) < forgetting / 4  # wall time: in proportion to that of the whole, beside which it waits
    store.close()


def test_it_ends_when_the_daemon_does(tmp_path: Path) -> None:
    """After the step that it is at; the next start goes on."""
    store = a_long_history(tmp_path, runs=2_000)
    breaths = list[float]()

    def pause(seconds: float) -> bool:
        breaths.append(seconds)
        return len(breaths) == 3

    assert tidy(store, registered=REGISTERED, at=NOW, keep=KEEP, pause=pause) == 400  # one step notes what there is
    assert breaths == [BREATH_SECONDS] * 3
    assert tidy(store, registered=REGISTERED, at=NOW, keep=KEEP, pause=lambda _: False) == 1599
    store.close()


class Away(MemoryStore):
    """A store that goes away in the middle."""

    def forget(self, *, registered: Mapping[TableId, str], at: datetime, keep: timedelta) -> Iterator[int]:
        yield 7
        raise TemporaryError("the store does not answer")


def test_old_acts_are_deleted_by_a_time_of_their_own() -> None:
    """The audit log is kept longer than runs are."""
    store = MemoryStore()
    for days in (1, 40, 400):
        store.note_act(Act(at=NOW - timedelta(days=days), who="ada", key=None, kind=ActKind.PAUSED))
    for keep, left in ((timedelta(days=365), 2), (timedelta(days=30), 1)):
        tidy(store, registered=REGISTERED, at=NOW, keep=replace(KEEP, acts=keep), pause=lambda _: False)
        assert len(store.acts()) == left


def test_a_store_in_trouble_is_tidied_another_time() -> None:
    """It is logged, and ends nothing."""
    assert tidy(Away(), registered=REGISTERED, at=NOW, keep=KEEP, pause=lambda _: False) is None


def test_the_history_is_tidied_by_its_own_settings(tmp_path: Path) -> None:
    """Old decisions go in steps. The decision that holds stays."""
    store = open_sqlite(tmp_path / "lakewarden.db")
    minute = timedelta(minutes=1)
    for number in range(450):
        row = DecisionRow(
            table=TRIPS,
            service=Service.CLEAN,
            decision="Due" if number % 2 else "NotDue",
            reason="a test",
            remedy=None,
            again_at=None,
            decided_at=NOW - 2 * MONTH + number * minute,
        )
        store.decided([row], changes=[row])
    pauses: list[float] = []

    def pause(seconds: float) -> bool:
        pauses.append(seconds)
        return False

    assert tidy(store, registered=REGISTERED, at=NOW, keep=KEEP, pause=pause) == 0

    assert [one.decision.decided_at for one in store.decision_changes(TRIPS)] == [NOW - 2 * MONTH + 449 * minute]
    assert len(pauses) > 1
    store.close()
