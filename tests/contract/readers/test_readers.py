"""Every kind of reader answers each request once, with the observation. If nothing has changed, the answer is empty."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import Observation
from lakewarden.planners.reading.observing import Answers, ObservationRequest
from lakewarden.planners.storage import LocalStorage
from lakewarden.service.state.readers.port import InlineReaders, TableReaders
from lakewarden.service.state.readers.processes import ProcessReaders
from tests.support.doubles import READER
from tests.support.doubles.fake import FAKE, FakeTable


class Scene:
    """A table with its last change long ago, and readers of one kind."""

    def __init__(self, folder: Path, kind: str) -> None:
        clock = ManualClock(datetime.now(UTC) + timedelta(days=1))
        self.lake = FakeTable.create(folder / "trips", clock=clock)
        self.lake.write()
        self.table = Table(id=TableId("trips"), format="fake", location=str(self.lake.folder))
        self.readers: TableReaders
        if kind == "inline":
            self.readers = InlineReaders(formats={"fake": FAKE}, storage_for=lambda _: LocalStorage(), clock=clock)
        else:
            self.readers = ProcessReaders(clock=clock, command=READER)
        self.answers: list[Answers] = []
        self.changed = threading.Condition()
        self.readers.open(self._hear)

    def _hear(self, answers: Answers) -> None:
        with self.changed:
            self.answers.append(answers)
            self.changed.notify()

    def look(self, asked: ObservationRequest) -> Observation | None:
        """Request an observation and return it. Raises its error."""
        self.readers.begin([asked])
        with self.changed:
            assert self.changed.wait_for(lambda: bool(self.answers), timeout=30)
            (answers,) = self.answers
            self.answers.clear()
        if answers.unchanged:
            assert tuple(answers.unchanged) == (asked.ticket,)
            return None
        (answer,) = answers.others
        assert answer.ticket == asked.ticket
        if answer.failure is not None:
            raise answer.failure.error()
        return answer.observation


@pytest.fixture(params=["inline", "processes"])
def scene(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    scene = Scene(tmp_path, request.param)
    yield scene
    scene.readers.close()


def seen(observation: Observation | None) -> int:
    assert observation is not None
    return len(observation.view.timeline.instants)


def test_a_look_at_an_unknown_table_reads_it(scene: Scene) -> None:
    """The observation is the format's own. Its memo stays in the process that made it."""
    observation = scene.look(ObservationRequest(1, scene.table))
    assert seen(observation) == 1
    assert observation is not None
    assert observation.memo is None


def test_a_table_that_has_not_changed_is_no_news(scene: Scene) -> None:
    """The daemon keeps the observation that it has."""
    first = scene.look(ObservationRequest(1, scene.table))
    assert scene.look(ObservationRequest(2, scene.table, known=1, previous=first)) is None
    scene.lake.write()
    assert seen(scene.look(ObservationRequest(3, scene.table, known=1, previous=first))) == 2


def test_a_table_is_read_anew_where_that_is_asked(scene: Scene) -> None:
    """This holds whatever its token says."""
    first = scene.look(ObservationRequest(1, scene.table))
    assert seen(scene.look(ObservationRequest(2, scene.table, anew=True, known=1, previous=first))) == 1
    assert seen(scene.look(ObservationRequest(3, scene.table, full=True, known=2, previous=first))) == 1


def test_an_observation_that_the_reader_did_not_make_is_vouched_for_all_the_same(scene: Scene) -> None:
    """A reader that was restarted need not read every table again."""
    first = scene.look(ObservationRequest(1, scene.table))
    scene.readers.forget(scene.table.id)
    assert scene.look(ObservationRequest(2, scene.table, known=1, previous=first)) is None


def test_an_asker_that_knows_something_else_gets_what_is_there(scene: Scene) -> None:
    """The reader may remember an older state than the daemon knows. Then the reader's state does not decide what is
    new.
    """
    first = scene.look(ObservationRequest(1, scene.table))
    assert seen(scene.look(ObservationRequest(9, scene.table, known=7, previous=first))) == 1


def test_trouble_is_answered_too(scene: Scene) -> None:
    """The error is the same as in the daemon's own process."""
    (scene.lake.folder / "fake.json").unlink()
    with pytest.raises(PermanentError, match=r"fake\.json"):
        scene.look(ObservationRequest(1, scene.table))
