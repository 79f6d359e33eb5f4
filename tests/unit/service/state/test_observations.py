"""The watch: reads a table again only when it may have changed, and never trusts what may be stale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import PermanentError, UnknownError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import MOST_ENTRIES, FileEntry, Observation, Storage
from lakewarden.planners.storage import LocalStorage
from lakewarden.service.state.observations import FULL_EVERY, Observations, Polled
from lakewarden.service.state.readers.port import InlineReaders
from tests.support.doubles.fake import FAKE, FakeFormat, FakeTable
from tests.support.doubles.fake.layout import WINDOW


class CountingStorage(LocalStorage):
    """Local disks that count what is asked of them."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def stamp(self, location: str) -> str:
        self.asked["stamp"] += 1
        return super().stamp(location)

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        self.asked["listing"] += 1
        return super().listing(location, most=most)

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        self.asked["read"] += 1
        return super().read(location, limit=limit)


class Scene:
    """A fake table under watch, long after its last change, so that its token can be trusted."""

    def __init__(self, folder: Path, format_: FakeFormat = FAKE) -> None:
        self.clock = ManualClock(datetime.now(UTC) + timedelta(days=1))
        self.lake = FakeTable.create(folder / "trips", clock=self.clock)
        self.table = Table(id=TableId("trips"), format="fake", location=str(self.lake.folder))
        self.storage = CountingStorage()
        self.observations = Observations(
            readers=InlineReaders(formats={"fake": format_}, storage_for=lambda _: self.storage, clock=self.clock)
        )

    def look(self) -> Polled:
        """Look, and return what the look brought. Raises the table's trouble."""
        self.observations.request([(self.table, False)])
        (brought,) = self.observations.answered().values()
        if not isinstance(brought, Polled):
            raise brought
        return brought

    def read(self) -> Observation:
        """Read the table now, as before a permit."""
        observation = self.observations.since(self.table, self.observations.mark())
        assert observation is not None
        return observation

    def commits(self) -> int:
        """Look, and return the commits that the observation shows."""
        return len(self.look().observation.view.timeline.instants)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Make a table with one commit."""
    scene = Scene(tmp_path)
    scene.lake.write()
    return scene


def test_an_unchanged_table_costs_its_token_and_nothing_more(scene: Scene) -> None:
    """No listing, no file: two stats."""
    first = scene.look()
    scene.storage.asked.clear()

    again = scene.look()

    assert not again.news
    assert again.observation is first.observation
    assert scene.storage.asked == Counter(stamp=2)


def test_a_changed_table_is_read_again(scene: Scene) -> None:
    """The next look shows the change."""
    assert scene.commits() == 1
    scene.lake.write()

    assert scene.look().news
    assert scene.commits() == 2


def test_only_what_is_new_is_read(scene: Scene) -> None:
    """The previous observation's memo saves every file that has not changed."""
    scene.commits()
    scene.lake.begin_write()
    scene.storage.asked.clear()

    scene.commits()

    assert scene.storage.asked["read"] == 1 + 2  # the properties, and the new write's two files


def test_a_young_token_is_not_trusted(tmp_path: Path) -> None:
    """A change within the same tick of the storage's clock would go unseen, so the table is read again."""
    scene = Scene(tmp_path)
    scene.clock.jump(timedelta(days=-1))  # the table was changed just now
    scene.lake.write()

    assert scene.look().news
    assert scene.look().news


def test_a_view_with_faults_is_never_kept(scene: Scene) -> None:
    """A file that cannot be read may have become readable without the token telling."""
    broken = scene.lake.folder / "timeline" / "00000002.write.requested"
    broken.write_text("{")
    assert scene.look().observation.view.faults

    broken.write_text('{"at": "2026-01-01T00:00:00+00:00"}')  # in place: the folder's time stays as it is

    assert not scene.look().observation.view.faults


def test_a_view_is_kept_no_longer_than_the_heartbeats_in_it(scene: Scene) -> None:
    """A heartbeat is renewed without the timeline changing."""
    scene.lake.begin_write()
    scene.look()

    scene.clock.advance(WINDOW - timedelta(seconds=1))
    assert not scene.look().news
    scene.clock.advance(timedelta(seconds=1))
    assert scene.look().news


def test_every_so_often_a_table_is_read_in_full(scene: Scene) -> None:
    """What was changed in place, so that no token and no memo shows it, is seen at last."""
    scene.look()
    for _ in range(FULL_EVERY):
        assert not scene.look().news
    scene.storage.asked.clear()

    assert scene.look().news

    assert scene.storage.asked["read"] == 1 + 3  # the properties, and all of the timeline
    assert not scene.look().news


def test_a_table_that_hooks_always_reach_first_is_read_in_full_too(scene: Scene) -> None:
    """A dirty table is read without a look at its token: those readings count as well."""
    for _ in range(FULL_EVERY + 1):
        scene.read()
    scene.storage.asked.clear()

    scene.read()

    assert scene.storage.asked["read"] == 1 + 3  # the properties, and all of the timeline


def test_a_table_that_cannot_be_read_keeps_its_last_observation(scene: Scene) -> None:
    """People still see what it was like."""
    before = scene.look().observation
    (scene.lake.folder / "fake.json").rename(scene.lake.folder / "away")

    with pytest.raises(PermanentError):
        scene.read()

    assert scene.observations.kept(scene.table.id) is before


def test_a_forgotten_table_is_read_in_full(scene: Scene) -> None:
    """Nothing that was kept is used."""
    scene.look()
    scene.observations.forget(scene.table.id)
    scene.storage.asked.clear()

    assert scene.observations.kept(scene.table.id) is None
    assert scene.look().news
    assert scene.storage.asked["read"] == 1 + 3


class ForgetfulFormat(FakeFormat):
    """A format with a flaw: it has not thought of what it finds in a table."""

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        raise KeyError("hoodie.unheard.of")


def test_what_a_format_did_not_foresee_is_told_as_unknown(tmp_path: Path) -> None:
    """Whoever asks can go on with the other tables; it is neither a missing table nor a matter of waiting."""
    scene = Scene(tmp_path, ForgetfulFormat())

    with pytest.raises(UnknownError, match=r"KeyError: 'hoodie\.unheard\.of'"):
        scene.look()


def test_a_question_that_waits_is_judged_by_the_token_until_that_changes(scene: Scene) -> None:
    """A table of 4,000 commits would be read each turn for as long as the question is open."""
    first = scene.read()
    scene.storage.asked.clear()
    mark = scene.observations.mark()
    assert scene.observations.since(scene.table, mark, anew=False) is first
    assert not scene.observations.read_since(scene.table.id, mark)
    assert scene.storage.asked == Counter(stamp=2)
    scene.lake.write()
    mark = scene.observations.mark()
    found = scene.observations.since(scene.table, mark, anew=False)
    assert found is not None
    assert len(found.view.timeline.instants) == 2
    assert scene.observations.read_since(scene.table.id, mark)


def test_what_stands_by_its_token_was_not_read_anew(scene: Scene) -> None:
    """Whoever asks for what is read from now on gets nothing else."""
    first = scene.read()
    mark = scene.observations.mark()
    assert scene.observations.since(scene.table, mark, anew=False) is first
    assert scene.observations.since(scene.table, mark) is not first
