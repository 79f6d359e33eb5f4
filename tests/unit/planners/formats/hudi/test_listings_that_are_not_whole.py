"""A listing leaves files out without an error. Nothing is deleted, decided or settled on such a listing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.backlog.archiving import ArchiveReading
from lakewarden.planners.formats.hudi.deletion.expiry import confirm_expired, read_partition
from lakewarden.planners.formats.hudi.deletion.guard import clean_overlaps, partitions_in_need
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import InstantKind, Service, Timeline
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import MOST_ENTRIES, FileEntry, Observation
from lakewarden.planners.storage import LocalStorage
from lakewarden.service.state.observations import FULL_EVERY, Observations
from lakewarden.service.state.readers.port import InlineReaders
from tests.support.hudi.hudi_table import HudiTable

BASE, LOG = "a-0_0-1-2_20260101000000000.parquet", ".a-0_20260101000000000.log.1_0-1-2"


@dataclass
class LossyStorage(LocalStorage):
    """Local disks behind a proxy that leaves names out of listings. Files are still found by their names.

    `drops` are the names that each of the next listings leaves out. All later listings leave out the last of them.
    """

    drops: list[Collection[str]] = field(default_factory=lambda: [()])
    asked: list[str] = field(default_factory=list)

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        dropped = self.drops.pop(0) if len(self.drops) > 1 else self.drops[0]
        return [entry for entry in super().listing(location, most=most) if entry.name not in dropped]

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        self.asked.append(Path(location).name)
        return super().read(location, limit=limit)


class Scene:
    """A table with a pending clean, and everything around it that keeps files from the clean."""

    def __init__(self, folder: Path, version: int) -> None:
        self.clock = ManualClock()
        self.lake = HudiTable(folder, version=version, clock=self.clock, zone=UTC)
        self.storage = LossyStorage()
        self.table = Table(
            id=TableId("t"), format="hudi", location=str(self.lake.folder), options=HudiTableOptions(writers="none")
        )
        saved = self.lake.begin_write()
        self.lake.commit_write(saved)
        self.lake.savepoint(saved, {"p2": (BASE,)})
        self.lake.commit_write(self.lake.begin_write())
        self.lake.plan_compaction(files={"p0": (BASE, LOG)})
        begun = self.lake.plan_compaction(files={"p1": (BASE, LOG)})
        self.lake.start(begun, "compaction")
        self.clean = self.lake.plan_clean(files={f"p{n}": (BASE, LOG) for n in range(4)})
        self.names = sorted(path.name for path in self.lake.timeline.iterdir() if path.name[0] == "2")

    def look(self, previous: Observation | None = None) -> Observation:
        return HUDI.observe(self.table, self.storage, previous, now=self.clock.now())

    def saved_by_the_guard(self, known: Timeline | None) -> set[str]:
        found = clean_overlaps(self.table.location, self.storage, instant=self.clean, known=known)
        return {overlap.file.partition for overlap in found}


NEEDED = {"p0", "p1", "p2"}


@pytest.fixture(params=[6, 9])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    return Scene(tmp_path / "t", request.param)


@pytest.fixture(scope="module", params=[6, 9])
def one_scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Make a scene that does not change, for many examples."""
    return Scene(tmp_path_factory.mktemp("standing") / "t", request.param)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=3 * settings().max_examples,
)
@given(data=st.data())
def test_whatever_listings_leave_out_the_guard_sees_every_need_or_refuses(
    one_scene: Scene, data: st.DataObject
) -> None:
    """The run has seen one whole listing. After that, any files may stay hidden for good, and other files from each
    listing.
    """
    one_scene.storage.drops = [()]
    known = one_scene.look().view.timeline
    subsets = st.sets(st.sampled_from(one_scene.names))
    one_scene.storage.drops = data.draw(st.lists(subsets, min_size=1, max_size=3))
    try:
        saved = one_scene.saved_by_the_guard(known)
    except TemporaryError:
        return
    assert saved == NEEDED


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=2 * settings().max_examples,
)
@given(data=st.data())
def test_one_listing_that_is_not_whole_is_enough_to_be_found_without_an_earlier_look(
    one_scene: Scene, data: st.DataObject
) -> None:
    """The guard lists twice. What one of the two listings shows is seen, or asked for by its name."""
    hidden = data.draw(st.sets(st.sampled_from(one_scene.names)))
    one_scene.storage.drops = data.draw(st.sampled_from([[hidden, ()], [(), hidden, ()]]))
    try:
        saved = one_scene.saved_by_the_guard(None)
    except TemporaryError:
        return
    assert saved == NEEDED


def test_a_whole_listing_is_not_suspected(scene: Scene) -> None:
    """This holds with and without an earlier observation."""
    assert scene.saved_by_the_guard(None) == NEEDED
    assert scene.saved_by_the_guard(scene.look().view.timeline) == NEEDED


def test_plans_that_are_really_gone_are_not_waited_for(scene: Scene) -> None:
    """They were withdrawn, rolled back or archived. The store says that the very file is gone."""
    known = scene.look().view.timeline
    for name in scene.names[:2] + [name for name in scene.names if "compaction" in name or "savepoint" in name]:
        if (scene.lake.timeline / name).exists():
            scene.lake.remove(name)
    assert scene.saved_by_the_guard(known) == set()


def test_a_listing_cut_short_hides_the_clean_itself(scene: Scene) -> None:
    """A page lost at the end loses the newest instants first. Without the clean's own plan nothing is deleted."""
    scene.storage.drops = [scene.names[-1:]]
    with pytest.raises(TemporaryError, match="not pending"):
        scene.saved_by_the_guard(None)


def test_a_clustering_of_table_version_6_whose_plan_is_hidden_is_no_write(tmp_path: Path) -> None:
    """Only its request shows that a pending replacecommit reads files. Without the request this cannot be known."""
    lake = HudiTable(tmp_path / "t", version=6, clock=ManualClock(), zone=UTC)
    lake.put(f"{lake.next_time()}.replacecommit.inflight")
    clean = lake.plan_clean(files={"p0": (BASE,)})
    with pytest.raises(TemporaryError, match="the plan of replacecommit"):
        clean_overlaps(str(lake.folder), LocalStorage(), instant=clean)


def test_no_partition_goes_and_no_instant_is_archived_on_a_listing_that_is_not_whole(scene: Scene) -> None:
    """A ttl asks for savepoints and plans, an archive counts commits. Both read the same whole timeline."""
    known = scene.look().view.timeline
    for name in scene.names:
        scene.storage.drops = [(), {name}, ()]
        with pytest.raises(TemporaryError, match="is not whole"):
            partitions_in_need(scene.table.location, scene.storage, ["p0"])
        scene.storage.drops = [(), {name}, ()]
        with pytest.raises(TemporaryError, match="is not whole"):
            ArchiveReading(scene.table.location, scene.storage).archiving(keep_min=1, keep_max=2, known=known)


# -- the daemon's observations


def test_what_was_seen_before_and_is_only_hidden_is_a_fault(scene: Scene) -> None:
    """While the file is hidden, no permit is given, no run is settled and nothing is kept. When it is listed again, the
    fault ends.
    """
    whole = scene.look()
    (first, _) = whole.view.timeline.pending(Service.COMPACTION)
    scene.storage.drops = [{f"{first.time}.compaction.requested"}]

    hidden = scene.look(whole)
    still = scene.look(hidden)  # it is not forgotten either

    for observation in (hidden, still):
        (fault,) = observation.view.faults
        assert "is not whole: it leaves out" in fault
        assert observation.keep_until == scene.clock.now()
    scene.storage.drops = [()]
    assert scene.look(still).view.faults == ()


def test_a_completed_write_that_seems_to_be_in_flight_again_is_a_fault(scene: Scene) -> None:
    """Otherwise it would be rolled back as the write of a dead writer."""
    whole = scene.look()
    done = whole.view.timeline.last_completed(InstantKind.WRITE)
    assert done is not None
    scene.storage.drops = [{name for name in scene.names if name.startswith(done.time) and name.endswith("commit")}]
    assert "is not whole" in scene.look(whole).view.faults[0]


def test_hundreds_of_archived_instants_cost_one_question(tmp_path: Path) -> None:
    """Instants older than everything listed have left together. If the store denies one of their files, all are
    gone.
    """
    scene = Scene(tmp_path / "t", 9)
    for path in scene.lake.timeline.glob("2*"):
        path.unlink()
    written = [scene.lake.write({}) for _ in range(50)]
    whole = scene.look()
    for time in written[:40]:
        for path in scene.lake.timeline.glob(f"{time}*"):
            path.unlink()
    scene.storage.asked.clear()
    assert scene.look(whole).view.faults == ()
    assert [name for name in scene.storage.asked if "commit" in name] == [f"{written[39]}_{done(whole, written[39])}"]


def done(observation: Observation, time: str) -> str:
    """Return how the name of a write of layout 2 ends."""
    (found,) = [i for i in observation.view.timeline.instants if i.time == time]
    return f"{found.completed_time}.{found.action}"


def test_the_look_in_full_still_knows_what_there_was(scene: Scene) -> None:
    """At intervals all payloads are read again. The names that were seen are not forgotten with them."""
    observations = Observations(
        readers=InlineReaders(formats={"hudi": HUDI}, storage_for=lambda _: scene.storage, clock=scene.clock)
    )
    for _ in range(FULL_EVERY + 1):
        observations.since(scene.table, observations.mark())
    scene.storage.drops = [{name for name in scene.names if "compaction" in name}]
    for _ in range(2):
        observation = observations.since(scene.table, observations.mark())
        assert observation is not None
        assert "is not whole" in observation.view.faults[0]


# -- partitions


def test_a_partition_whose_newest_files_are_hidden_from_a_listing_is_not_taken_for_expired(tmp_path: Path) -> None:
    """Two listings must agree before a partition expires."""
    (tmp_path / "p0").mkdir()
    for name in ("old.parquet", "new.parquet"):
        (tmp_path / "p0" / name).touch()
    storage = LossyStorage(drops=[{"new.parquet"}, ()])
    first, again = (read_partition(str(tmp_path), "p0", storage) for _ in range(2))
    with pytest.raises(TemporaryError, match="do not agree"):
        confirm_expired(first, again)
