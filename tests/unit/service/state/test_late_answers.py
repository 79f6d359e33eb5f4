"""Looks are answered when they are: nobody who asks is kept waiting, or gets what is older than the question."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import Observation
from lakewarden.planners.storage import LocalStorage
from lakewarden.service.state.observations import Observations, Polled
from lakewarden.service.state.readers.port import InlineReaders
from tests.support.daemon.late_readers import LateReaders
from tests.support.doubles.fake import FAKE, FakeTable


class Scene:
    """A fake table, and readers that take their time."""

    def __init__(self, folder: Path) -> None:
        clock = ManualClock(datetime.now(UTC) + timedelta(days=1))
        self.lake = FakeTable.create(folder / "trips", clock=clock)
        self.lake.write()
        self.table = Table(id=TableId("trips"), format="fake", location=str(self.lake.folder))
        self.told = 0
        self.readers = LateReaders(
            InlineReaders(formats={"fake": FAKE}, storage_for=lambda _: LocalStorage(), clock=clock)
        )
        self.observations = Observations(readers=self.readers, tell=self._tell)

    def _tell(self) -> None:
        self.told += 1

    def ask(self, *, anew: bool = False) -> None:
        self.observations.request([(self.table, anew)])

    def taken(self) -> Polled:
        (brought,) = self.observations.answered().values()
        assert isinstance(brought, Polled)
        return brought


def commits(observation: Observation | None) -> int:
    assert observation is not None
    return len(observation.view.timeline.instants)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_however_often_it_is_asked_one_look_is_in_flight(scene: Scene) -> None:
    """A store that takes its time is not asked the same thing again and again."""
    for _ in range(3):
        scene.ask()
        assert scene.observations.since(scene.table, 0) is None
    assert len(scene.readers.asked) == 1
    assert scene.observations.answered() == {}


def test_an_answer_is_told_and_taken_once(scene: Scene) -> None:
    """The next look is another one."""
    scene.ask()
    scene.readers.look()
    assert scene.told == 1
    assert scene.taken().news
    assert scene.observations.answered() == {}


def test_a_table_that_became_dirty_while_it_was_read_is_read_again(scene: Scene) -> None:
    """What was being read may be older than the hook. Only what is read afterwards is told."""
    scene.ask()
    scene.ask(anew=True)
    scene.readers.look()
    assert scene.observations.answered() == {}
    scene.lake.write()
    scene.readers.look()
    assert commits(scene.taken().observation) == 2
    assert not scene.readers.asked


def test_a_question_gets_nothing_that_was_begun_before_it(scene: Scene) -> None:
    """The look under way when a run asks may not show what the run has just done."""
    scene.ask()
    mark = scene.observations.mark()
    assert scene.observations.since(scene.table, mark) is None
    scene.readers.look()
    assert scene.observations.since(scene.table, mark) is None
    scene.lake.write()
    scene.readers.look()
    assert commits(scene.observations.since(scene.table, mark)) == 2


def test_two_questions_share_the_look_that_is_young_enough_for_both(scene: Scene) -> None:
    """The younger one decides."""
    first, second = scene.observations.mark(), scene.observations.mark()
    scene.observations.since(scene.table, first)
    scene.observations.since(scene.table, second)
    scene.readers.look()
    assert scene.observations.since(scene.table, first) is scene.observations.since(scene.table, second)
    assert not scene.readers.asked


def test_a_look_brings_what_was_read_after_it(scene: Scene) -> None:
    """A run that ends is settled by a reading of its own. What was read before must not be decided on after that: the
    run's plan would be taken up once more.
    """
    scene.ask()
    scene.readers.look()
    scene.lake.write()
    mark = scene.observations.mark()
    scene.observations.since(scene.table, mark)
    scene.readers.look()
    settled = scene.observations.since(scene.table, mark)
    assert scene.taken().observation is settled


def test_what_was_read_for_a_question_is_news_for_the_next_look(scene: Scene) -> None:
    """The poll finds nothing new after it, and there is something to decide on all the same."""
    scene.ask()
    scene.readers.look()
    scene.taken()
    scene.lake.write()
    scene.observations.since(scene.table, scene.observations.mark())
    scene.readers.look()
    assert scene.observations.answered() == {}
    scene.ask()
    scene.readers.look()
    assert scene.taken().news
    scene.ask()
    scene.readers.look()
    assert not scene.taken().news


def test_trouble_answers_the_questions_that_were_there_and_no_later_one(scene: Scene) -> None:
    """A table that cannot be read now may be readable in a moment."""
    mark = scene.observations.mark()
    scene.observations.since(scene.table, mark)
    (scene.lake.folder / "fake.json").rename(scene.lake.folder / "away")
    scene.readers.look()
    with pytest.raises(PermanentError):
        scene.observations.since(scene.table, mark)
    (scene.lake.folder / "away").rename(scene.lake.folder / "fake.json")
    later = scene.observations.mark()
    assert scene.observations.since(scene.table, later) is None
    scene.readers.look()
    assert commits(scene.observations.since(scene.table, later)) == 1


def test_a_table_that_was_forgotten_is_not_known_by_a_late_answer(scene: Scene) -> None:
    """It may be another replica's by then."""
    scene.ask()
    scene.observations.forget(scene.table.id)
    scene.readers.look()
    assert scene.observations.answered() == {}
    assert scene.observations.kept(scene.table.id) is None
