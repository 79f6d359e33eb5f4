"""Writers that work on a partition on S3 while a compaction replaces it: by its path, or where the metastore leads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import pytest
from hive_metastore.ttypes import MetaException  # type: ignore[import-untyped]

from lakewarden.executors.contract import Failed, FailureKind, NothingToDo, Succeeded
from lakewarden.planners.model.instant import Step
from tests.support.catalogs import metastore as metastores
from tests.support.catalogs.metastore import MetastoreInMemory
from tests.support.object_stores.s3_server import S3Server
from tests.unit.executors.programs.directory.test_object_compaction import (
    HOUR,
    LATER,
    NAME,
    OTHER,
    Clicks,
    KilledError,
    until_over,
)

GRACE = timedelta(minutes=6)
"""A little more than the grace of the runs."""


@pytest.fixture
def clicks(s3_server: S3Server) -> Iterator[Clicks]:
    metastore = MetastoreInMemory()
    yield Clicks(s3_server, metastore)
    metastore.stop()


def _led_to(clicks: Clicks) -> str:
    [place] = [place for place in clicks.places() if place.startswith("_lakewarden")]
    return place


def _lead(clicks: Clicks, place: str) -> None:
    """Let the one entry lead to a place, as another program does."""
    [entry] = clicks.metastore.partitions_of(NAME).values()
    entry.sd.location = f"{clicks.location.replace('s3:', 's3a:')}/{place}"
    clicks.metastore.tell("alter_partition", "lake", "clicks", entry)


def _empty(clicks: Clicks, folder: str) -> None:
    for name in clicks.files.find(f"{clicks.location}/{folder}"):
        clicks.files.rm(name)
    clicks.files.invalidate_cache()


def test_rows_that_a_writer_puts_where_the_metastore_leads_move_into_the_partition(clicks: Clicks) -> None:
    """Spark's INSERT INTO a table of a catalog, and Trino's, write to the location in the entry. One that was told the
    location before readers are led back commits after it.
    """
    clicks.fill()
    rows = clicks.rows(HOUR)
    clicks.run("metastore")
    place = _led_to(clicks)
    clicks.put(f"{place}/part-spark-1", "late,1\n")
    clicks.run("metastore", now=LATER + GRACE)
    assert clicks.state() == "returned"
    assert clicks.rows_by_metastore() == rows + Counter(["late,1"])
    clicks.put(f"{place}/part-spark-2", "late,2\n")
    until_over(clicks, "metastore", now=LATER + 2 * GRACE)
    assert clicks.rows(HOUR) == clicks.rows_by_metastore() == rows + Counter(["late,1", "late,2"])
    assert {name.rpartition("/")[2] for name in clicks.own()} == {"act.json"}


def test_a_writer_that_has_begun_where_the_metastore_leads_is_waited_for(clicks: Clicks) -> None:
    """Its parts in progress stay, and what it commits then moves into the partition."""
    clicks.fill()
    rows, soon = clicks.rows(HOUR), LATER - timedelta(days=8) + timedelta(hours=2)
    clicks.run("metastore", now=soon, horizon="1h")
    place = _led_to(clicks)
    part = f"{place}/_temporary/0/task/part-spark"
    clicks.put(part, "late,1\n")
    for number in range(1, 5):
        clicks.run("metastore", now=soon + number * GRACE, horizon="1h")
        assert clicks.state() == "returned"
    clicks.files.invalidate_cache()
    assert clicks.files.exists(f"{clicks.location}/{part}")
    clicks.put(f"{place}/part-spark", "late,1\n")
    clicks.files.rm(f"{clicks.location}/{part}")
    clicks.run("metastore", now=soon + 5 * GRACE, horizon="1h")
    assert clicks.state() is None
    assert clicks.rows(HOUR) == clicks.rows_by_metastore() == rows + Counter(["late,1"])


@pytest.mark.long
@pytest.mark.parametrize("lost", ["nothing", "the journal"])
def test_a_kill_while_rows_of_a_writer_move_into_the_partition_loses_none(clicks: Clicks, lost: str) -> None:
    """Whatever request it comes before or after. A reader by the metastore finds each row once at every moment. A
    deletion of the journal makes the run lead the entry back without a plan.
    """
    at = 0
    while True:
        at += 1
        clicks.metastore.partitions.clear()
        for folder in (HOUR, "_lakewarden"):
            _empty(clicks, folder)
        clicks.fill()
        rows = clicks.rows(HOUR)
        clicks.run("metastore")
        place, added = _led_to(clicks), Counter(["late,1"])
        clicks.put(f"{place}/part-spark-1", "late,1\n")
        if lost == "the journal":
            clicks.files.rm(f"{clicks.location}/_lakewarden/act.json")
        count, told = 0, list[str]()

        def die(what: str) -> None:
            nonlocal count
            count += 1
            told.append(what)  # noqa: B023 - as below
            if count == at:  # noqa: B023 - it is called within this turn
                raise KilledError

        try:
            for number in range(1, 4):
                clicks.run("metastore", now=LATER + number * GRACE, tell=die)
                if number == 1:  # it was told the location before readers were led back
                    clicks.put(f"{place}/part-spark-2", "late,2\n")
                    added["late,2"] = 1
        except KilledError:
            pass
        else:
            break
        found = clicks.rows_by_metastore()
        assert found - Counter(["late,2"]) == rows + Counter(["late,1"]), told[-1]
        until_over(clicks, "metastore", now=LATER + 5 * GRACE)
        assert clicks.rows(HOUR) == clicks.rows_by_metastore() == rows + added, told[-1]
        assert clicks.places() == {HOUR}, told[-1]
        assert {name.rpartition("/")[2] for name in clicks.own()} == {"act.json"}, told[-1]
    assert at > 10


@pytest.mark.parametrize("replace", ["all files", "one file, under its name"])
def test_a_partition_that_a_writer_replaces_during_the_grace_has_the_rows_of_the_writer(
    clicks: Clicks, replace: str
) -> None:
    """INSERT OVERWRITE by path, or an export under fixed names. The old rows do not come back."""
    clicks.fill()
    clicks.run("metastore")
    if replace == "all files":
        _empty(clicks, HOUR)
    clicks.put(f"{HOUR}/part-0-3", "corrected\n")
    rows = clicks.rows(HOUR)
    until_over(clicks, "metastore")
    assert clicks.rows(HOUR) == clicks.rows_by_metastore() == rows
    assert clicks.places() == {HOUR}


def test_a_partition_that_is_replaced_after_a_kill_has_the_rows_of_the_writer(clicks: Clicks) -> None:
    """The run is killed when its act has begun, and the next one finds another partition."""
    clicks.fill()

    def die(what: str) -> None:
        if what.startswith("before copy") and "/part-lakewarden-" in what:
            raise KilledError

    with pytest.raises(KilledError):
        clicks.run("with_duplicates", tell=die)
    assert clicks.state() == "replacing"
    _empty(clicks, HOUR)
    clicks.put(f"{HOUR}/part-new", "corrected\n")
    until_over(clicks, "with_duplicates")
    assert clicks.rows(HOUR) == Counter(["corrected"])


def test_a_file_that_is_written_again_while_others_are_deleted_stays(clicks: Clicks) -> None:
    """Each file is asked for its version right before it is deleted."""
    clicks.fill()
    written = list[str]()

    def write(what: str) -> None:
        if what.startswith("after delete") and f"/{HOUR}/part-0-" in what and not written:
            written.append("part-0-5")
            clicks.put(f"{HOUR}/part-0-5", "again\n")

    assert isinstance(clicks.run("with_duplicates", tell=write), Succeeded)
    assert written
    assert clicks.rows(HOUR)["again"] == 1


@pytest.mark.parametrize("place", [HOUR, "elsewhere/x"])
def test_a_partition_that_another_program_leads_elsewhere_is_not_replaced(clicks: Clicks, place: str) -> None:
    """Flink's Hive sink leads the entry to the folder of the partition when late rows come. Readers by the metastore
    would find each row twice while files are exchanged.
    """
    clicks.fill()
    clicks.run("metastore")
    _lead(clicks, place)
    before = clicks.names()

    def look(_: str) -> None:
        assert max(clicks.rows_by_metastore().values(), default=0) <= 1

    clicks.run("metastore", now=LATER + GRACE, tell=look)
    assert clicks.state() == "returned"
    assert clicks.names() == before
    assert clicks.places() == {place}


@pytest.mark.parametrize("deleted", ["the whole table", "the journal alone"])
def test_an_entry_that_leads_to_an_act_without_a_journal_is_led_back(clicks: Clicks, deleted: str) -> None:
    """A writer that overwrites a whole table deletes `_lakewarden` with it, and writes where the metastore leads."""
    clicks.fill()
    clicks.run("metastore")
    place, rows = _led_to(clicks), clicks.rows(HOUR)
    if deleted == "the whole table":
        _empty(clicks, "")
        rows = Counter[str]()
    else:
        clicks.files.rm(f"{clicks.location}/_lakewarden/act.json")
        clicks.files.invalidate_cache()
    clicks.put(f"{place}/part-spark", "new,1\nnew,2\n")
    clicks.put(f"{OTHER}/part-0", "other\n")  # else there is no directory
    until_over(clicks, "metastore")
    assert clicks.places() == {HOUR}
    assert clicks.rows_by_metastore() == rows + Counter(["new,1", "new,2"])


def test_an_act_waits_while_the_metastore_refuses_to_lead_back(clicks: Clicks, monkeypatch: pytest.MonkeyPatch) -> None:
    """As its database may for a while. The run fails for now, and the next one goes on."""
    clicks.fill()
    rows = clicks.rows(HOUR)
    clicks.run("metastore")

    def refused(*_: object) -> None:
        raise MetaException("the database is read-only")

    with monkeypatch.context() as patched:
        patched.setattr(metastores._Answers, "alter_partition", refused)
        outcome = clicks.run("metastore", now=LATER + GRACE)
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.TEMPORARY
    assert clicks.rows_by_metastore() == rows
    until_over(clicks, "metastore", now=LATER + 2 * GRACE)
    assert clicks.rows(HOUR) == clicks.rows_by_metastore() == rows


def test_a_file_of_a_writer_in_the_folder_of_an_old_act_stays(clicks: Clicks) -> None:
    """What no act accounts for is for an operator, who is told. What an act has left of itself goes."""
    clicks.fill()
    act = "0123456789abcdef"
    clicks.put(f"_lakewarden/{act}/0/part-lakewarden-{act}-00000", "copy\n")
    clicks.put(f"_lakewarden/{act}/0/part-spark", "late,1\n")
    clicks.run("with_duplicates")
    assert {name.rpartition("/")[2] for name in clicks.own()} == {"act.json", "part-spark"}


def test_a_marker_that_comes_after_the_plan_ends_it(clicks: Clicks) -> None:
    """Readers that wait for a marker would find rows twice beside it."""
    clicks.fill(marker=False)

    def mark(step: Step) -> None:
        if step is Step.COMMIT:
            clicks.put(f"{HOUR}/_SUCCESS", "")

    outcome = clicks.run("with_duplicates", before=mark)
    assert isinstance(outcome, NothingToDo), outcome
    assert len(clicks.names()) == 7
    assert clicks.state() is None


def test_new_files_that_are_gone_from_where_the_metastore_leads_delete_no_old_file(clicks: Clicks) -> None:
    """A writer that overwrites the partition there may have deleted them. An operator looks."""
    clicks.fill()
    clicks.run("metastore")
    before = clicks.names()
    _empty(clicks, _led_to(clicks))
    outcome = clicks.run("metastore", now=LATER + GRACE)
    assert isinstance(outcome, Failed)
    assert "is missing: look which files of its partition hold all rows" in outcome.reason
    assert clicks.names() >= before - {"_SUCCESS"}
