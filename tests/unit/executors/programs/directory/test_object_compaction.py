"""Compaction on S3, by a metastore and with a window of duplicates. Text needs no Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from lakewarden.executors.contract import Failed, NothingToDo, Outcome, Succeeded, Yielded
from lakewarden.executors.programs.directory.compaction import Compaction
from lakewarden.executors.programs.directory.partition_commit import PartitionCommit
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.storage.content import refused
from tests.support.catalogs.metastore import MetastoreInMemory
from tests.support.directory.directory_runs import DirectoryRun, figures
from tests.support.directory.watched_client import watched_storage
from tests.support.object_stores.s3_server import BUCKET, S3Server

LATER = datetime.now(UTC) + timedelta(days=8)
"""The objects of a store have the time at which they were written. So the daemon's clock is ahead."""

HOUR, OTHER = "dt=2026-03-01/hr=07", "dt=2026-03-01/hr=08"
NAME = "lake.clicks"


class KilledError(BaseException):
    """The process is gone."""


class Clicks:
    """A directory of text on S3, read by a client that shares nothing with Lakewarden, and a metastore of it."""

    def __init__(self, server: S3Server, metastore: MetastoreInMemory) -> None:
        server.start()
        self.server, self.metastore = server, metastore
        self.location = f"s3://{BUCKET}/{uuid4().hex}"
        self.files = server.files()
        metastore.create_database("lake")
        metastore.create_table(NAME, self.location.replace("s3:", "s3a:"), keys={"dt": "string", "hr": "int"})

    def fill(self, partition: str = HOUR, *, files: int = 6, marker: bool = True) -> None:
        for number in range(files):
            self.put(f"{partition}/part-0-{number}", f"{partition},{number},a\n{partition},{number},b\n")
        if marker:
            self.put(f"{partition}/_SUCCESS", "")
        day, hour = (level.partition("=")[2] for level in partition.split("/"))
        self.metastore.add_partition(NAME, (day, hour), f"{self.location.replace('s3:', 's3a:')}/{partition}")

    def put(self, path: str, content: str) -> None:
        self.files.pipe_file(f"{self.location}/{path}", content.encode())

    def names(self, folder: str = HOUR) -> set[str]:
        return {
            one["name"].rpartition("/")[2] for one in self.files.find(f"{self.location}/{folder}", detail=True).values()
        }

    def rows(self, folder: str) -> Counter[str]:
        """Read the rows of a folder as an engine does: the names that are not hidden."""
        return self._rows(f"{self.location}/{folder}")

    def _rows(self, place: str) -> Counter[str]:
        listed = [name for name in self.files.find(place) if name.rpartition("/")[2][0] not in "._"]
        return Counter(line for name in listed for line in self.files.cat_file(name).decode().splitlines())

    def rows_by_metastore(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for one in self.metastore.partitions_of(NAME).values():
            found += self._rows(one.sd.location.replace("s3a:", "s3:"))
        return found

    def places(self) -> set[str]:
        start = f"{self.location.replace('s3:', 's3a:')}/"
        return {one.sd.location.removeprefix(start) for one in self.metastore.partitions_of(NAME).values()}

    def own(self) -> set[str]:
        return set(self.files.find(f"{self.location}/_lakewarden"))

    def state(self) -> str | None:
        try:
            told = self.files.cat_file(f"{self.location}/_lakewarden/act.json")
        except FileNotFoundError:
            return None
        return None if told.startswith(b"deleted") else str(json.loads(told)["progress"])

    def run(
        self,
        publication: str,
        *,
        tell: Callable[[str], None] = lambda _: None,
        now: datetime = LATER,
        before: Callable[[Step], None] = lambda _: None,
        horizon: str = "7d",
        **options: Any,
    ) -> Outcome:
        there = {"uri": self.metastore.uri, "database": "lake", "table": "clicks"}
        one = DirectoryRun(
            service=Service.COMPACTION,
            location=self.location,
            table={"restore_horizon": horizon, "metastore": there},
            options={"files": "csv", "publication": publication, "reader_grace": "5m", **options},
            before=before,
        )
        return one.carried_out(Compaction(clock=ManualClock(now)), watched_storage(self.server, tell))


@pytest.fixture
def clicks(s3_server: S3Server) -> Iterator[Clicks]:
    metastore = MetastoreInMemory()
    yield Clicks(s3_server, metastore)
    metastore.stop()


def until_over(clicks: Clicks, publication: str, *, now: datetime = LATER, **options: Any) -> None:
    """Run again and again, as the daemon does, until nothing is under way and nothing is left to do."""
    for number in range(1, 12):
        outcome = clicks.run(publication, now=now + timedelta(minutes=6 * number), **options)
        assert not isinstance(outcome, Failed), outcome
        if isinstance(outcome, NothingToDo) and clicks.state() is None:
            return
    pytest.fail("it comes to no end")


@pytest.mark.long
def test_small_files_become_one_and_the_marker_is_newer(clicks: Clicks) -> None:
    """Exactly the small files are replaced: a large one, and one that is ignored, stay as they are."""
    clicks.put(f"{HOUR}/part-large", "x" * 3000 + "\n")
    clicks.fill()
    before = clicks.rows(HOUR)
    told = figures(clicks.run("with_duplicates", small_file_limit="1KiB"))
    assert told["partitions_compacted"] == 1
    assert told["files_rewritten"] == 6
    [new] = [name for name in clicks.names() if name.startswith("part-lakewarden-")]
    assert clicks.names() == {new, "part-large", "_SUCCESS"}
    assert clicks.rows(HOUR) == before
    listed = {
        one["name"].rpartition("/")[2]: one["LastModified"]
        for one in clicks.files.ls(f"{clicks.location}/{HOUR}", detail=True)
    }
    assert listed["_SUCCESS"] >= listed[new]
    assert clicks.state() is None
    assert {name.rpartition("/")[2] for name in clicks.own()} == {"act.json"}


def test_without_being_asked_nothing_is_replaced_in_an_object_store(clicks: Clicks) -> None:
    """The window of duplicates is off by default, and so is the metastore."""
    clicks.fill()
    outcome = clicks.run("exchange")
    assert isinstance(outcome, Failed)
    assert "cannot exchange two folders" in outcome.reason
    assert len(clicks.names()) == 7
    assert clicks.own() == set()


@pytest.mark.parametrize("publication", ["metastore", "with_duplicates"])
def test_a_weaker_way_is_refused_where_folders_can_be_exchanged(tmp_path: Any, publication: str) -> None:
    one = DirectoryRun(
        service=Service.COMPACTION,
        location=tmp_path,
        table={"restore_horizon": "7d"},
        options={"publication": publication},
    )
    outcome = one.carried_out(Compaction(clock=ManualClock(LATER)), LocalStorage())
    assert isinstance(outcome, Failed)
    assert "is for S3" in outcome.reason


@pytest.mark.long
def test_readers_by_the_metastore_find_each_row_once_before_and_after_every_request(clicks: Clicks) -> None:
    """They are led to the new files, and back when the partition holds them. A reader that was led to a folder finds it
    complete for the time of grace.
    """
    clicks.fill()
    clicks.fill(OTHER)
    expected, seen = clicks.rows_by_metastore(), set[frozenset[str]]()

    def look(_: str) -> None:
        assert clicks.rows_by_metastore() == expected
        seen.add(frozenset(clicks.places()))

    assert isinstance(clicks.run("metastore", tell=look), Succeeded)
    assert clicks.state() == "pointed"
    assert clicks.rows(HOUR) + clicks.rows(OTHER) == expected  # of a reader that was led to them before
    assert len(clicks.names()) == 7
    waiting = clicks.run("metastore", tell=look, now=LATER + timedelta(minutes=4))
    assert isinstance(waiting, NothingToDo)
    assert waiting.again == timedelta(minutes=1)
    led = clicks.places()
    assert isinstance(clicks.run("metastore", tell=look, now=LATER + timedelta(minutes=6)), NothingToDo)
    assert clicks.state() == "returned"
    assert clicks.places() == {HOUR, OTHER}
    assert sum((clicks.rows(folder) for folder in led), Counter()) == expected
    clicks.run("metastore", tell=look, now=LATER + timedelta(minutes=12))
    assert clicks.state() is None
    assert {name.rpartition("/")[2] for name in clicks.own()} == {"act.json"}
    assert clicks.rows(HOUR) + clicks.rows(OTHER) == expected
    assert len(clicks.names()) == len(clicks.names(OTHER)) == 2
    assert len(seen) == 2


@pytest.mark.parametrize("publication", [pytest.param("metastore", marks=pytest.mark.long), "with_duplicates"])
def test_a_kill_before_or_after_any_request_loses_no_row_and_the_next_run_ends_it(
    clicks: Clicks, publication: str
) -> None:
    """At each moment every row is there. With the metastore it is there once; in the window of duplicates at most
    twice, and then no marker is there. In the end it is there once, and nothing of the run is left.
    """
    clicks.fill()
    expected, at = clicks.rows(HOUR), 0
    while True:
        at += 1
        count, told = 0, list[str]()

        def die(what: str) -> None:
            nonlocal count
            count += 1
            told.append(what)  # noqa: B023 - as below
            if count == at:  # noqa: B023 - it is called within this turn
                raise KilledError

        now = LATER
        try:
            for number in range(4):
                clicks.run(publication, tell=die, now=now + timedelta(minutes=6 * number), min_input_files=2)
        except KilledError:
            pass
        else:
            break
        found = clicks.rows(HOUR)
        if publication == "metastore":
            assert clicks.rows_by_metastore() == expected, told[-1]
        assert found.keys() == expected.keys(), told[-1]
        assert max(found.values()) <= 2, told[-1]
        if max(found.values()) == 2:
            assert "_SUCCESS" not in clicks.names(), told[-1]
        until_over(clicks, publication, now=now + timedelta(hours=1), min_input_files=2)
        assert clicks.rows(HOUR) == clicks.rows_by_metastore() == expected, told[-1]
        assert "_SUCCESS" in clicks.names(), told[-1]
        assert {name.rpartition("/")[2] for name in clicks.own()} <= {"act.json"}, told[-1]
        for name in clicks.names():
            clicks.files.rm(f"{clicks.location}/{HOUR}/{name}")
        clicks.files.invalidate_cache()
        clicks.metastore.partitions.clear()
        clicks.fill()
    assert at > 20


@pytest.mark.parametrize("publication", ["metastore", pytest.param("with_duplicates", marks=pytest.mark.long)])
def test_what_a_writer_adds_at_any_moment_is_kept_and_no_marker_vouches_for_it(
    clicks: Clicks, publication: str
) -> None:
    """Whatever request the file comes before. A plan that it comes into is given up."""
    clicks.fill()
    at, rows = 0, clicks.rows(HOUR)
    while True:
        at += 1
        count, late = 0, f"late,{at}"

        def write(_: str) -> None:
            nonlocal count
            count += 1
            if count == at:  # noqa: B023 - it is called within this turn
                clicks.put(f"{HOUR}/part-late-{at}", f"{late}\n")  # noqa: B023

        clicks.run(publication, tell=write, now=LATER, min_input_files=2)
        if count < at:
            break
        rows[late] += 1
        entries = {
            one["name"].rpartition("/")[2]: one for one in clicks.files.ls(f"{clicks.location}/{HOUR}", detail=True)
        }
        if "_SUCCESS" in entries and f"part-late-{at}" in entries:
            assert entries["_SUCCESS"]["LastModified"] <= entries[f"part-late-{at}"]["LastModified"]
        until_over(clicks, publication, now=LATER + timedelta(hours=1), min_input_files=2)
        assert clicks.rows(HOUR) == clicks.rows_by_metastore() == rows
        for number in range(3):
            clicks.put(f"{HOUR}/part-{at}-{number}", f"more,{at},{number}\n")
            rows[f"more,{at},{number}"] += 1
        clicks.put(f"{HOUR}/_SUCCESS", "")
    assert at > 10


def test_a_file_that_changes_after_the_plan_keeps_its_partition(clicks: Clicks) -> None:
    clicks.fill()
    clicks.fill(OTHER)

    def change(step: Step) -> None:
        if step is Step.COMMIT:
            clicks.put(f"{HOUR}/part-0-3", "changed\n")

    assert figures(clicks.run("with_duplicates", before=change))["partitions_compacted"] == 1
    assert len(clicks.names()) == 7
    assert len(clicks.names(OTHER)) == 2
    assert clicks.rows(HOUR)["changed"] == 1


@pytest.mark.long
def test_of_two_daemons_one_acts_and_the_other_one_touches_nothing(clicks: Clicks) -> None:
    """Without a common store, at every request of the first. The second takes back what has not begun, and forward what
    has. Rows are there once in the end.
    """
    clicks.fill()
    expected, at = clicks.rows(HOUR), 0
    while True:
        at += 1
        count = 0

        def other(_: str) -> None:
            nonlocal count
            count += 1
            if count == at:  # noqa: B023 - it is called within this turn
                clicks.run("with_duplicates", min_input_files=2)

        outcome = clicks.run("with_duplicates", tell=other, min_input_files=2)
        if count < at:
            break
        assert isinstance(outcome, Succeeded | NothingToDo | Yielded | Failed)
        until_over(clicks, "with_duplicates", now=LATER + timedelta(days=2), min_input_files=2)
        assert clicks.rows(HOUR) == expected
        assert {name.rpartition("/")[2] for name in clicks.own()} <= {"act.json"}
        for name in clicks.names():
            clicks.files.rm(f"{clicks.location}/{HOUR}/{name}")
        clicks.metastore.partitions.clear()
        clicks.fill()
    assert at > 10


def test_a_partition_that_the_metastore_does_not_list_at_its_folder_stays_as_it_is(clicks: Clicks) -> None:
    """No reader by it is led there, and what it leads to is of another program."""
    clicks.fill()
    [entry] = clicks.metastore.partitions_of(NAME).values()
    entry.sd.location = "s3a://elsewhere/x"
    clicks.metastore.tell("alter_partition", "lake", "clicks", entry)
    outcome = clicks.run("metastore")
    assert not isinstance(outcome, Succeeded)
    assert len(clicks.names()) == 7
    assert clicks.state() is None


def test_a_partition_that_the_store_lets_us_delete_nothing_from_is_left(clicks: Clicks) -> None:
    """Otherwise readers would find rows twice for as long as the right is missing."""
    clicks.fill()
    before = clicks.names()

    def refuse(what: str) -> None:
        if what.startswith("before delete") and HOUR in what:
            raise refused(what, "403")

    outcome = clicks.run("with_duplicates", tell=refuse)
    assert isinstance(outcome, NothingToDo), outcome
    assert "could not be deleted" in outcome.reason
    assert clicks.names() == before
    assert clicks.state() is None


def test_no_marker_is_written_into_a_partition_in_the_midst_of_a_compaction(clicks: Clicks) -> None:
    """Readers who wait for it would find rows twice."""
    clicks.fill(marker=False)

    def die(what: str) -> None:
        if what.startswith("before delete") and HOUR in what and not what.endswith("-none"):
            raise KilledError

    with pytest.raises(KilledError):
        clicks.run("with_duplicates", tell=die)
    assert max(clicks.rows(HOUR).values()) == 2
    commit = DirectoryRun(service=Service.PARTITION_COMMIT, location=clicks.location)
    outcome = commit.carried_out(
        PartitionCommit(clock=ManualClock(LATER)), watched_storage(clicks.server, lambda _: None)
    )
    assert not isinstance(outcome, Succeeded)
    assert "_SUCCESS" not in clicks.names()


def _state(**changes: Any) -> str:
    told = {"act": "0" * 16, "run": "run", "progress": "clearing", "since": "2026-03-01T00:00:00Z", "grace_seconds": 0}
    return json.dumps({**told, **changes})


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", *(_state(act=act) for act in (f"../{HOUR}", "", ".", "0" * 16 + "/..", "0" * 16 + "\n"))],
)
def test_a_journal_that_cannot_be_read_touches_nothing(clicks: Clicks, content: str) -> None:
    """It names the file, and what to look for. The name of an act is no path to something else."""
    clicks.fill()
    clicks.put("_lakewarden/act.json", content)
    outcome = clicks.run("with_duplicates")
    assert isinstance(outcome, Failed)
    assert "act.json cannot be read" in outcome.reason
    assert len(clicks.names()) == 7


@pytest.mark.parametrize(
    "changes",
    [
        {"partition": "../other"},
        {"partition": f"{HOUR}/../hr=08"},
        {"partition": "_lakewarden/x"},
        {"partition": ""},
        {"folder": "../0"},
        {"old": {"../part-0-1": {"size": 1, "version": "x"}}},
        {"new": {"a/b": 1}},
        {"marker": "../_SUCCESS"},
    ],
)
def test_a_record_that_names_something_outside_of_its_partition_touches_nothing(
    clicks: Clicks, changes: dict[str, Any]
) -> None:
    """The record lies in the store of the table, to which others may write."""
    clicks.fill()
    one = {"partition": HOUR, "folder": "0", "old": {}, "new": {}, "stay": {}, **changes}
    clicks.put(
        f"_lakewarden/{'0' * 16}/record.json", json.dumps({"run": "r", "by_metastore": False, "replacements": [one]})
    )
    clicks.put("_lakewarden/act.json", _state(progress="replacing"))
    outcome = clicks.run("with_duplicates")
    assert isinstance(outcome, Failed)
    assert "record.json cannot be read" in outcome.reason
    assert len(clicks.names()) == 7
