"""Partition commit lists partitions in a metastore, and ttl takes them out, each once and at its folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakewarden.executors import points
from lakewarden.executors.contract import Failed, FailureKind, NothingToDo, Outcome
from lakewarden.executors.points import Point, Watcher
from lakewarden.executors.programs.directory.partition_commit import PartitionCommit
from lakewarden.executors.programs.directory.partition_list import PartitionList
from lakewarden.executors.programs.directory.ttl import Ttl
from lakewarden.planners.formats.directory.format import DirectoryFormat
from lakewarden.planners.formats.directory.listing.folders import Folder
from lakewarden.planners.formats.directory.metastore import COMMITTED_AT
from lakewarden.planners.formats.directory.options import (
    DirectoryTableOptions,
    MetastoreOptions,
    PartitionCommitOptions,
)
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.view import Blocker, TableView
from lakewarden.planners.storage import LocalStorage
from tests.support.catalogs.metastore import MetastoreInMemory
from tests.support.directory.directories import directory_table, put
from tests.support.directory.directory_runs import DirectoryRun, figures

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
NAME = "lake.trips"
KEYS = {"dt": "string", "hr": "int"}
DAY = "dt=2026-03-10"


class KilledError(BaseException):
    """The process is gone."""


class _Killer(Watcher):
    """Kills the process at its n-th passing of a point."""

    def __init__(self, point: Point, nth: int = 1) -> None:
        self._point, self._left = point, nth

    def reach(self, point: Point, *, run: str, service: str) -> None:
        self._left -= point is self._point
        if self._left == 0:
            raise KilledError


class Trips:
    """A directory by days and hours, and its table in a metastore."""

    def __init__(self, folder: Path, metastore: MetastoreInMemory) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.metastore = folder, metastore
        metastore.create_database("lake")
        metastore.create_table(NAME, f"file:{folder}", keys=KEYS)

    def write(self, hour: int, name: str = "part-1", *, at: datetime = NOW - 5 * HOUR) -> Path:
        home = self.folder / DAY / f"hr={hour:02d}"
        put(home / name, at)
        return home

    @property
    def options(self) -> dict[str, Any]:
        database, _, table = NAME.partition(".")
        there = {"uri": self.metastore.uri, "database": database, "table": table, "timeout": "5s"}
        return {"metastore": there}

    def listed(self) -> dict[str, Any]:
        """Return the entries by the path of their place."""
        entries = self.metastore.partitions_of(NAME).values()
        places = [one.sd.location.removeprefix("file:") for one in entries]
        assert len(set(places)) == len(places), "a folder is listed twice: readers find its rows twice"
        return {place.partition(f"{self.folder}/")[2]: one for place, one in zip(places, entries, strict=True)}

    def alter(self, one: Any) -> None:
        """Change an entry, as another client does."""
        self.metastore.tell("alter_partition", "lake", "trips", one)

    def hours(self) -> list[str]:
        return sorted(path.rpartition("/")[2] for path in self.listed())

    def marked(self) -> list[str]:
        return sorted(file.parent.name for file in self.folder.rglob("_SUCCESS"))

    def commit(self, policy: str = "metastore", *, now: datetime = NOW, kill: Point | None = None) -> Outcome:
        """Carry out a run of partition commit; None kills nothing."""
        one = DirectoryRun(
            service=Service.PARTITION_COMMIT, location=self.folder, table=self.options, options={"policy": policy}
        )
        return _killed_at(kill, lambda: one.carried_out(PartitionCommit(clock=ManualClock(now))))

    def expire(self, *, now: datetime, kill: Point | None = None) -> Outcome:
        one = DirectoryRun(service=Service.TTL, location=self.folder, table=self.options, options={"retain": "7d"})
        return _killed_at(kill, lambda: one.carried_out(Ttl(clock=ManualClock(now))))

    def view(self, policy: str = "metastore") -> TableView:
        table = directory_table(
            self.folder,
            PartitionCommitOptions.model_validate({"policy": policy}),
            DirectoryTableOptions.model_validate(self.options),
        )
        return DirectoryFormat().observe(table, LocalStorage(), None, now=NOW).view


def of_the_commit(view: TableView) -> list[Blocker]:
    """Return what blocks `partition_commit`."""
    return [blocker for blocker in view.blockers if Service.PARTITION_COMMIT in blocker.services]


def _killed_at(point: Point | None, act: Callable[[], Outcome]) -> Outcome:
    if point is None:
        return act()
    points.watch_by(_Killer(point))
    try:
        return act()
    finally:
        points.watch_by(Watcher())


@pytest.fixture
def metastore() -> Iterator[MetastoreInMemory]:
    started = MetastoreInMemory()
    yield started
    started.stop()


@pytest.fixture
def trips(tmp_path: Path, metastore: MetastoreInMemory) -> Trips:
    return Trips(tmp_path / "trips", metastore)


def test_an_inactive_partition_is_listed_at_its_folder_and_no_file_is_written(trips: Trips) -> None:
    """With the columns and the serde of its table. An active one waits."""
    trips.write(7)
    trips.write(8, at=NOW)
    assert figures(trips.commit()) == {"partitions_committed": 1, "partitions_left": 0}
    [one] = trips.listed().values()
    assert (one.values, one.sd.location) == (["2026-03-10", "07"], f"file:{trips.folder}/{DAY}/hr=07")
    assert one.sd.serdeInfo.serializationLib.endswith("ParquetHiveSerDe")
    assert trips.marked() == []
    assert isinstance(trips.commit(), NothingToDo)
    assert trips.view().backlogs == {}


def test_a_place_is_spelled_as_its_table_is_and_a_name_as_its_folder(metastore: MetastoreInMemory) -> None:
    """Engines of Hadoop know `s3a`. What a writer has escaped stays escaped in the place, and not in the values."""
    metastore.create_database("lake")
    metastore.create_table("lake.clicks", "s3a://lake/clicks/", keys={"dt": "string", "who": "string"})
    options = MetastoreOptions.model_validate({"uri": metastore.uri, "database": "lake", "table": "clicks"})
    paths = ["dt=2026-03-10/who=a%2Fb c", "dt=ünï/who=__HIVE_DEFAULT_PARTITION__", "dt=%25/who=*"]
    folders = {path: Folder(files=1, bytes=1, newest=5.0) for path in paths}
    there = PartitionList(options, "s3://lake/clicks")
    for path in paths:
        there.commit(path, 5.0)
        there.commit(path, 5.0)
    listed = metastore.partitions_of("lake.clicks")
    assert {one.sd.location for one in listed.values()} == {f"s3a://lake/clicks/{path}" for path in paths}
    assert ("2026-03-10", "a/b c") in listed
    look = there.look(folders)
    assert look.partitions.keys() == folders.keys()
    assert not any(one.elsewhere for one in look.partitions.values())


def test_late_data_alters_the_entry_and_adds_none(trips: Trips) -> None:
    """As Flink does. What others keep with the entry stays."""
    trips.write(7)
    trips.commit()
    [one] = trips.listed().values()
    one.parameters["numRows"] = "5"
    trips.alter(one)
    before = one.parameters[COMMITTED_AT]
    trips.write(7, "part-2", at=NOW - 2 * HOUR)
    assert trips.view().backlogs[Service.PARTITION_COMMIT].commits == 1
    assert figures(trips.commit())["partitions_committed"] == 1
    [one] = trips.listed().values()
    assert float(one.parameters[COMMITTED_AT]) == (NOW - 2 * HOUR).timestamp() > float(before)
    assert one.parameters["numRows"] == "5"


@pytest.mark.parametrize(
    ("policy", "kill", "listed", "marked"),
    [
        ("metastore,success-file", Point.LISTED, ["hr=07"], []),
        ("metastore,success-file", Point.MARKED, ["hr=07"], ["hr=07"]),
        ("success-file,metastore", Point.MARKED, [], ["hr=07"]),
        ("success-file,metastore", Point.LISTED, ["hr=07"], ["hr=07"]),
    ],
)
def test_a_kill_between_two_acts_leaves_the_second_to_the_next_run(
    trips: Trips, policy: str, kill: Point, listed: list[str], marked: list[str]
) -> None:
    """The acts come in the order of the policy, and the one that is done is not repeated."""
    for hour in (7, 8):
        trips.write(hour)
    with pytest.raises(KilledError):
        trips.commit(policy, kill=kill)
    assert (trips.hours(), trips.marked()) == (listed, marked)
    markers = {file: file.stat().st_mtime_ns for file in trips.folder.rglob("_SUCCESS")}
    trips.commit(policy)
    assert trips.hours() == trips.marked() == ["hr=07", "hr=08"]
    assert all(file.stat().st_mtime_ns == at for file, at in markers.items())
    assert isinstance(trips.commit(policy), NothingToDo)


def test_an_entry_of_another_client_is_taken_over_and_not_doubled(trips: Trips) -> None:
    """Hive's client lists `hr=07` as `7`: two entries of one folder would show each row twice."""
    home = trips.write(7)
    trips.metastore.add_partition(NAME, ("2026-03-10", "7"), f"file:{home}")
    [one] = trips.listed().values()
    one.parameters.clear()
    trips.alter(one)
    assert figures(trips.commit())["partitions_committed"] == 1
    assert list(trips.metastore.partitions_of(NAME)) == [("2026-03-10", "7")]
    assert isinstance(trips.commit(), NothingToDo)


def test_a_folder_that_is_listed_under_another_name_is_left_alone(trips: Trips) -> None:
    """An operator has listed it by hand. The reason is shown."""
    home = trips.write(7)
    trips.metastore.add_partition(NAME, ("of last year", "1"), str(home))
    assert isinstance(trips.commit(), NothingToDo)
    assert "as another partition" in "".join(trips.view().notes[Service.PARTITION_COMMIT])
    assert list(trips.metastore.partitions_of(NAME)) == [("of last year", "1")]


def test_an_entry_at_another_place_is_not_moved(trips: Trips) -> None:
    """Its readers find other files there. Flink would point it at the folder."""
    trips.write(7)
    trips.write(8)
    trips.metastore.add_partition(NAME, ("2026-03-10", "07"), "file:/lake/corrected/07")
    assert figures(trips.commit()) == {"partitions_committed": 1, "partitions_left": 0}
    assert "at another place" in "".join(trips.view().notes[Service.PARTITION_COMMIT])
    places = {one.sd.location for one in trips.metastore.partitions_of(NAME).values()}
    assert places == {"file:/lake/corrected/07", f"file:{trips.folder}/{DAY}/hr=08"}


def test_an_entry_that_is_moved_after_the_plan_stays_there(trips: Trips) -> None:
    """The run looks at each entry again right before it changes it."""
    trips.write(7)
    trips.commit()
    trips.write(7, "part-2", at=NOW - HOUR)

    def move(step: Step) -> None:
        if step is not Step.COMMIT:
            return
        [one] = trips.metastore.partitions_of(NAME).values()
        one.sd.location = "file:/lake/corrected/07"
        trips.alter(one)

    run = DirectoryRun(
        service=Service.PARTITION_COMMIT,
        location=trips.folder,
        table=trips.options,
        options={"policy": "metastore"},
        before=move,
    )
    outcome = run.carried_out(PartitionCommit(clock=ManualClock(NOW)))
    assert isinstance(outcome, NothingToDo)
    assert "at another place" in outcome.reason
    [one] = trips.metastore.partitions_of(NAME).values()
    assert one.sd.location == "file:/lake/corrected/07"


def test_a_metastore_that_is_away_blocks_partition_commit_alone(trips: Trips) -> None:
    """The table is observed, and its other services go on."""
    trips.write(7)
    trips.metastore.stop()
    view = trips.view("metastore,success-file")
    [blocker] = of_the_commit(view)
    assert "does not answer" in blocker.reason
    assert blocker.services == {Service.PARTITION_COMMIT}
    outcome = trips.commit("metastore,success-file")
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.TEMPORARY
    assert trips.marked() == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda table: setattr(table, "partitionKeys", []), "has no partition columns"),
        (lambda table: setattr(table.sd, "location", "file:/lake/other"), "at 'file:/lake/other', and not at"),
        (lambda table: setattr(table, "sd", None), "at no place"),
        (lambda table: table.parameters.update(transactional="TRUE"), "is transactional"),
    ],
)
def test_a_table_that_is_not_the_directory_is_named(trips: Trips, change: Any, said: str) -> None:
    trips.write(7)
    change(trips.metastore.tables("lake")["trips"])
    [blocker] = of_the_commit(trips.view())
    assert said in blocker.reason
    assert isinstance(trips.commit(), Failed)
    assert trips.metastore.partitions_of(NAME) == {}
    trips.metastore.drop_table(NAME)
    [blocker] = of_the_commit(trips.view())
    assert "create an external table" in blocker.reason


def test_folders_that_are_not_the_columns_wait_with_the_reason(trips: Trips) -> None:
    trips.write(7)
    put(trips.folder / "dt=2026-03-10/region=eu/hr=01/part-1", NOW - 5 * HOUR)
    assert figures(trips.commit())["partitions_committed"] == 1
    assert "not the partition columns of the table in the metastore ('dt, hr')" in "".join(
        trips.view().notes[Service.PARTITION_COMMIT]
    )


def test_without_a_metastore_the_policy_is_refused(trips: Trips) -> None:
    """The configuration names the key that is missing."""
    table = directory_table(trips.folder, PartitionCommitOptions.model_validate({"policy": "metastore"}))
    assert [found.key for found in DirectoryFormat().contradictions(table)] == ["options.metastore"]


def test_an_expired_partition_leaves_the_list_with_its_folder(trips: Trips) -> None:
    """An entry at another place, or of another partition, stays."""
    trips.write(7)
    trips.write(8)
    trips.commit()
    trips.metastore.add_partition(NAME, ("2026-03-10", "09"), "file:/lake/corrected/09")
    trips.write(9)
    trips.expire(now=NOW + timedelta(days=9))
    assert not list((trips.folder / DAY).glob("hr=*"))
    assert list(trips.metastore.partitions_of(NAME)) == [("2026-03-10", "09")]


@pytest.mark.parametrize("kill", [Point.PROPOSED, Point.DROPPED, Point.EXCHANGED, Point.PUBLISHED, Point.DELETING])
def test_a_killed_ttl_leaves_no_rows_that_are_not_listed(trips: Trips, kill: Point) -> None:
    """If rows come after the kill, the partition is no longer expired, and the next run lists it again."""
    home = trips.write(7)
    trips.commit()
    now = NOW + timedelta(days=9)
    with pytest.raises(KilledError):
        trips.expire(now=now, kill=kill)
    assert (home.exists(), trips.hours() == ["hr=07"]) in [(True, True), (True, False), (False, False)]
    trips.write(7, "part-late", at=now)
    trips.expire(now=now)
    assert (home / "part-late").exists()
    if (home / "part-1").exists():
        assert trips.hours() == ["hr=07"]
    trips.commit(now=now + HOUR)
    assert trips.hours() == ["hr=07"]


def test_a_metastore_that_is_away_keeps_an_expired_partition(trips: Trips) -> None:
    """Nothing is moved before the metastore has answered."""
    home = trips.write(7)
    trips.commit()
    trips.metastore.stop()
    assert isinstance(trips.expire(now=NOW + timedelta(days=9)), Failed)
    assert (home / "part-1").exists()


_STEPS = st.tuples(
    st.sampled_from(["write", "commit", "kill listed", "kill marked", "others drop", "others add", "wait"]),
    st.integers(0, 3),
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(_STEPS, max_size=14),
    policy=st.sampled_from(["metastore", "metastore,success-file", "success-file,metastore"]),
)
def test_in_the_end_each_partition_is_listed_once_at_its_folder(
    tmp_path_factory: pytest.TempPathFactory, metastore: MetastoreInMemory, steps: list[tuple[str, int]], policy: str
) -> None:
    """Whatever writers, other clients of the metastore and kills do between. No folder is ever listed twice."""
    trips = Trips(tmp_path_factory.mktemp("lake") / "trips", metastore)
    clock, written = ManualClock(NOW), set[str]()
    metastore.partitions.clear()
    for count, (step, hour) in enumerate(steps):
        path = f"{DAY}/hr={hour:02d}"
        match step:
            case "write":
                trips.write(hour, f"part-{count}", at=clock.now())
                written.add(f"hr={hour:02d}")
            case "wait":
                clock.advance(HOUR)
            case "others drop" if path in trips.listed():
                metastore.tell("drop_partition", "lake", "trips", trips.listed()[path].values, False)
            case "others add" if path not in trips.listed() and (trips.folder / path).exists():
                metastore.add_partition(NAME, ("2026-03-10", str(hour)), f"{trips.folder}/{path}")
            case _ if written:
                kill = {"kill listed": Point.LISTED, "kill marked": Point.MARKED}.get(step)
                with contextlib.suppress(KilledError):
                    trips.commit(policy, now=clock.now(), kill=kill)
        trips.listed()
    clock.advance(timedelta(days=1))
    if written:
        trips.commit(policy, now=clock.now())
    places = {one.sd.location.rpartition("/")[2] for one in metastore.partitions_of(NAME).values()}
    assert places == written
    assert set(trips.marked()) == (written if "success-file" in policy else set())
