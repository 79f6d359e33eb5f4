"""What a table does to whoever reads it is that table's trouble: real processes, that are really killed."""

from __future__ import annotations

import os
import selectors
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from structlog.processors import TimeStamper
from structlog.testing import capture_logs

from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.reading.observing import Answers, ObservationAnswer, ObservationRequest
from lakewarden.service.config.document import ReadingSettings
from lakewarden.service.state.readers.port import EndReason
from lakewarden.service.state.readers.processes import ProcessReaders
from tests.support.daemon.unruly_reader import COMMAND, READS, RELEASED
from tests.support.doubles.fake import FakeTable
from tests.support.waiting import eventually

SOON = 300.0
"""Seconds, after which nothing comes any more."""


class Scene:
    """Tables whose names say what happens to their reader, and what their looks brought."""

    def __init__(
        self,
        folder: Path,
        *,
        deadline: timedelta = timedelta(seconds=4),
        timeout: timedelta = timedelta(seconds=0.3),
    ) -> None:
        self.folder = folder
        self.answers: dict[int, ObservationAnswer | None] = {}
        self.changed = threading.Condition()
        self.tickets = 0
        self.ended: list[EndReason] = []
        self.readers = ProcessReaders(
            settings=ReadingSettings(processes=1, requests=4, deadline=deadline, memory=2**29),
            command=COMMAND,
            timeout=timeout,
            ended=self.ended.append,
        )
        self.readers.open(self._hear)

    def table(self, name: str, *, remote: str | None = None) -> Table:
        """Return a table; a remote one is in the store of that name."""
        if not (self.folder / name).exists():
            FakeTable.create(self.folder / name, clock=SystemClock()).write()
        location = str(self.folder / name)
        return Table(
            id=TableId(name), format="fake", location=location if remote is None else f"s3://{remote}{location}"
        )

    def begin(self, *tables: Table) -> list[int]:
        """Begin looks, and return their tickets."""
        asked = [ObservationRequest(self.tickets + number, table) for number, table in enumerate(tables, 1)]
        self.tickets += len(asked)
        self.readers.begin(asked)
        return [one.ticket for one in asked]

    def look(self, *tables: Table) -> Mapping[str, str | None]:
        """Look at tables; return each one's trouble, None where it could be read."""
        tickets = self.begin(*tables)
        self.until(lambda: all(ticket in self.answers for ticket in tickets))
        return {table.id: self.failure(ticket) for table, ticket in zip(tables, tickets, strict=True)}

    def failure(self, ticket: int) -> str | None:
        answer = self.answers[ticket]
        return None if answer is None or answer.failure is None else answer.failure.message

    def until(self, true: Callable[[], bool], seconds: float = SOON) -> None:
        with self.changed:
            assert self.changed.wait_for(true, timeout=seconds)

    def _hear(self, answers: Answers) -> None:
        with self.changed:
            for ticket in answers.unchanged:
                assert ticket not in self.answers
                self.answers[ticket] = None
            for answer in answers.others:
                assert answer.ticket not in self.answers, "a look is answered once"
                self.answers[answer.ticket] = answer
            self.changed.notify()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    yield from _open(Scene(tmp_path))


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Scene]:
    """Return a scene in which no look is given up during a test."""
    yield from _open(Scene(tmp_path, deadline=timedelta(hours=1)))


@pytest.fixture
def one_lane(tmp_path: Path) -> Iterator[Scene]:
    """Return a scene in which no look is slow."""
    yield from _open(Scene(tmp_path, deadline=timedelta(hours=1), timeout=timedelta(hours=1)))


def _open(scene: Scene) -> Iterator[Scene]:
    yield scene
    scene.readers.close()
    eventually(lambda: not processes())


def processes() -> list[psutil.Process]:
    """Return the readers of this test: other tests may have left a JVM running, for those after them."""
    return [one for one in psutil.Process().children() if _reads(one)]


def _reads(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and COMMAND[-1] in process.cmdline()
    except psutil.Error:
        return False  # it ends this very moment


@pytest.mark.parametrize("name", ["hangs", "hangs-at-its-token", "spins"])
def test_a_look_that_does_not_end_holds_up_its_table_alone(patient: Scene, name: str) -> None:
    """The others are answered meanwhile."""
    good = [patient.table(f"good-{number}") for number in range(5)]
    patient.look(*good)
    (bad,) = patient.begin(patient.table(name))
    assert set(patient.look(*good).values()) == {None}
    assert bad not in patient.answers


@pytest.mark.parametrize("name", ["hangs", "hangs-at-its-token", "spins"])
def test_a_look_that_does_not_end_is_given_up_at_its_deadline(tmp_path: Path, name: str) -> None:
    """Its failure says how long it took."""
    for scene in _open(Scene(tmp_path, deadline=timedelta(seconds=1))):
        failures = scene.look(scene.table(name))
        assert "was not read within" in (failures[name] or "")


@pytest.mark.parametrize(
    ("name", "said", "counted"),
    [
        ("crashes", r"ended the process that read it (signal 11)", EndReason.DIED),
        ("swells", "cannot be read within 512MiB of memory", EndReason.SWELLED),
    ],
)
def test_a_table_that_ends_its_reader_is_named_and_the_others_are_read(
    scene: Scene, name: str, said: str, counted: EndReason
) -> None:
    """Those behind it in the same process, too; and so it is the next time."""
    tables = [scene.table("before"), scene.table(name), scene.table("behind"), scene.table("last")]
    for _ in range(2):
        errors = scene.look(*tables)
        assert said in (errors[name] or "")
        assert [errors[one] for one in ("before", "behind", "last")] == [None] * 3
    assert scene.ended == [counted] * 2


def test_a_table_that_takes_long_is_read_in_the_end_and_holds_up_nobody(patient: Scene) -> None:
    """It is read by itself from then on."""
    slow, good = patient.table("waits"), patient.table("good")
    released = patient.folder / "waits" / RELEASED
    patient.look(good)
    for _ in range(2):
        (ticket,) = patient.begin(slow)
        assert patient.look(good) == {"good": None}
        assert ticket not in patient.answers
        released.touch()
        patient.until(lambda one=ticket: one in patient.answers)  # type: ignore[misc]
        assert patient.failure(ticket) is None
        released.unlink()


def test_a_table_that_took_long_stays_where_it_is_remembered(patient: Scene) -> None:
    """Its later looks are quick for that alone: elsewhere all of it would be read again, and so at every other look."""
    table = patient.table("is-large")
    known = previous = None
    for _ in range(5):
        patient.tickets += 1
        ticket = patient.tickets
        patient.readers.begin([ObservationRequest(ticket, table, anew=True, known=known, previous=previous)])
        patient.until(lambda one=ticket: one in patient.answers)  # type: ignore[misc]
        answer = patient.answers[ticket]
        assert answer is not None
        known, previous = ticket, answer.observation
    assert (patient.folder / "is-large" / READS).read_text() == "1"


def test_a_known_table_is_read_before_unknown_ones_that_were_asked_for_earlier(one_lane: Scene) -> None:
    """New and broken tables may take long, each less than the timeout."""
    good, first, second = (one_lane.table(name) for name in ("good", "waits-first", "waits-second"))
    (known,) = one_lane.begin(good)
    one_lane.until(lambda: known in one_lane.answers)
    answer = one_lane.answers[known]
    assert answer is not None
    _, last = one_lane.begin(first, second)
    one_lane.tickets += 1
    again = one_lane.tickets
    one_lane.readers.begin([ObservationRequest(again, good, known=known, previous=answer.observation)])
    (one_lane.folder / first.id / RELEASED).touch()
    one_lane.until(lambda: again in one_lane.answers)
    assert last not in one_lane.answers
    (one_lane.folder / second.id / RELEASED).touch()
    one_lane.until(lambda: last in one_lane.answers)


@pytest.mark.long
def test_many_tables_that_hang_at_once_leave_the_others_read(scene: Scene) -> None:
    """A file system that is gone hangs all of its tables. Each of them is given up, and none takes the place of the
    good ones for long.
    """
    good = [scene.table(f"good-{number}") for number in range(3)]
    bad = scene.begin(*(scene.table(f"hangs-{number}") for number in range(6)))
    for _ in range(3):
        assert set(scene.look(*good).values()) == {None}
    scene.until(lambda: all(ticket in scene.answers for ticket in bad))
    assert all("was not read within" in (scene.failure(ticket) or "") for ticket in bad)


@pytest.mark.parametrize("all_at_once", [pytest.param(True, marks=pytest.mark.long), False])
def test_a_store_that_does_not_answer_leaves_the_others_their_threads(patient: Scene, all_at_once: bool) -> None:
    """More tables hang in one store than there are threads, also if they were handed to the process before the others:
    those do not wait behind them.
    """
    hang = [patient.table(f"hangs-{number}", remote="gone") for number in range(12)]
    good = [patient.table(f"good-{number}", remote="there") for number in range(3)]
    begun = patient.begin(*hang)
    if not all_at_once:
        eventually(lambda: any(len(one.requests) == len(hang) for one in patient.readers._remote._processes()))
    assert set(patient.look(*good).values()) == {None}
    assert not patient.answers.keys() & set(begun)


@pytest.mark.long
def test_of_many_in_one_process_that_died_the_guilty_one_is_found(scene: Scene) -> None:
    """Remote tables are read side by side: nobody knows which of them it was, until each is read alone."""
    tables = [scene.table(f"dawdles-{number}", remote="there") for number in range(3)]
    errors = scene.look(*tables, scene.table("crashes", remote="there"))
    assert "ended the process" in (errors["crashes"] or "")
    assert [errors[table.id] for table in tables] == [None] * 3


@pytest.mark.long
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
def test_a_reader_that_is_killed_or_frozen_is_replaced(scene: Scene, blow: signal.Signals) -> None:
    """Whoever did it: the next looks are made by another."""
    table = scene.table("good")
    assert scene.look(table) == {"good": None}
    for reader in processes():
        os.kill(reader.pid, blow)
    if blow is signal.SIGKILL:
        assert scene.look(table) == {"good": None}
        return
    (ticket,) = scene.begin(table)  # nobody sees that a process is frozen until it ought to have answered
    scene.until(lambda: ticket in scene.answers)


@pytest.mark.long
def test_a_turn_that_fails_again_and_again_fills_no_disk(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread waits on a selector that is closed. It rests for a second after each failure that it logs."""
    scene.look(scene.table("good"))
    closed = selectors.DefaultSelector()
    closed.close()
    with capture_logs(processors=[TimeStamper(fmt=None)]) as logged, monkeypatch.context() as patched:
        patched.setattr(scene.readers._children, "_selector", closed)
        scene.readers.forget(TableId("good"))  # wakes the thread
        eventually(lambda: len(logged) > 1)
    first, second = (entry["timestamp"] for entry in logged[:2] if entry["event"] == "readers_not_kept")
    assert second - first > 0.9


def test_a_reader_does_not_outlive_a_daemon_that_is_killed(tmp_path: Path) -> None:
    """It ends although it is in the middle of a look that never does."""
    program = (
        "import sys; from pathlib import Path; from tests.unit.service.state.readers.test_processes import Scene\n"
        "scene = Scene(Path(sys.argv[1])); scene.begin(scene.table('spins')); sys.stdin.read()"
    )
    import subprocess  # noqa: PLC0415
    import sys  # noqa: PLC0415

    daemon = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE)
    try:
        eventually(lambda: any(one.cpu_percent(0.1) > 20 for one in psutil.Process(daemon.pid).children()))
        readers = psutil.Process(daemon.pid).children()
    finally:
        daemon.kill()
        daemon.wait()
        if daemon.stdin is not None:
            daemon.stdin.close()
    eventually(lambda: not any(one.is_running() for one in readers))


@pytest.mark.long
def test_readers_that_are_killed_again_and_again_fail_no_look(scene: Scene) -> None:
    """A machine that runs out of memory kills them as they come. Each is counted; looks wait for one that lives."""
    tables = [scene.table(f"good-{number}") for number in range(5)]
    scene.look(*tables)
    asked = scene.begin(*tables)
    killed = 0
    for _ in range(4):
        for reader in processes():
            os.kill(reader.pid, signal.SIGKILL)
            killed += 1
        time.sleep(0.2)  # what kills them is another process, with a rhythm of its own
    scene.until(lambda: all(ticket in scene.answers for ticket in asked))
    assert [scene.failure(ticket) for ticket in asked] == [None] * 5
    assert scene.ended.count(EndReason.DIED) >= killed / 2
