"""One partition that a metastore refuses stops no other, and a metastore that is away stops no service without it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hive_metastore.ttypes import InvalidObjectException, MetaException  # type: ignore[import-untyped]

from lakewarden.executors.contract import NothingToDo, Succeeded
from lakewarden.executors.points import Point
from lakewarden.executors.programs.directory.compaction import Compaction
from lakewarden.planners.formats.directory.format import DirectoryFormat
from lakewarden.planners.formats.directory.options import (
    CompactionOptions,
    DirectoryTableOptions,
    PartitionCommitOptions,
    TtlOptions,
)
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.triggers import NumCommits
from tests.support.catalogs import metastore as metastores
from tests.support.catalogs.metastore import MetastoreInMemory
from tests.support.directory.directories import directory_table, put
from tests.support.directory.directory_runs import DirectoryRun, figures
from tests.unit.executors.programs.directory.test_partition_list import (
    DAY,
    HOUR,
    NAME,
    NOW,
    KilledError,
    Trips,
)

LATER = NOW + timedelta(days=9)


@pytest.fixture
def trips(tmp_path: Path) -> Iterator[Trips]:
    started = MetastoreInMemory()
    yield Trips(tmp_path / "trips", started)
    started.stop()


def _refuse(patched: pytest.MonkeyPatch, method: str, hour: str, error: Exception) -> None:
    """Let the metastore answer with an error to a change of the partitions of one hour."""
    was: Callable[..., Any] = getattr(metastores._Answers, method)

    def answered(self: Any, *arguments: Any) -> Any:
        told = arguments[2] if len(arguments) > 1 else arguments[0].values
        if told[-1] == hour:
            raise error
        return was(self, *arguments)

    patched.setattr(metastores._Answers, method, answered)


@pytest.mark.parametrize(
    "error",
    [
        MetaException("Incorrect string value for column 'PART_NAME' at row 1"),
        InvalidObjectException("not valid"),
    ],
)
def test_a_partition_that_the_metastore_refuses_stops_no_other(
    trips: Trips, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Although it changed before the others, and is the first in each run. The service is not in quarantine by it."""
    trips.write(7, at=NOW - 9 * HOUR)
    trips.write(8)
    _refuse(monkeypatch, "add_partition", "07", error)
    assert figures(trips.commit())["partitions_committed"] == 1
    assert trips.hours() == ["hr=08"]
    again = trips.commit()
    assert isinstance(again, NothingToDo), again
    assert "refuses the partition" in again.reason


def test_a_name_that_is_not_utf_8_stops_no_other(trips: Trips) -> None:
    """The protocol of a metastore cannot say it."""
    put(trips.folder / os.fsdecode(b"dt=M\xfcnchen") / "hr=01" / "part-1", NOW - 9 * HOUR)
    trips.write(8)
    assert figures(trips.commit())["partitions_committed"] == 1
    again = trips.commit()
    assert isinstance(again, NothingToDo), again
    assert "not UTF-8" in again.reason


def test_an_expired_partition_that_the_metastore_does_not_drop_stops_no_other(
    trips: Trips, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays, with its files, and nothing of the run is left."""
    home, other = trips.write(7), trips.write(8)
    trips.commit()
    _refuse(monkeypatch, "drop_partition", "07", MetaException("not allowed"))
    assert figures(trips.expire(now=LATER))["partitions_deleted"] == 1
    assert home.exists()
    assert not other.exists()
    assert trips.hours() == ["hr=07"]
    assert not (trips.folder / "_lakewarden").exists()


@pytest.mark.parametrize("gone", ["the metastore", "its table"])
def test_compaction_goes_on_while_a_partition_cannot_be_listed_again(trips: Trips, gone: str) -> None:
    """A ttl was killed after the entry was gone, and rows have come: the next run of ttl lists it again."""
    home = trips.write(7)
    trips.commit()
    with pytest.raises(KilledError):
        trips.expire(now=LATER, kill=Point.DROPPED)
    trips.write(7, "part-late", at=LATER)
    for number in range(6):
        put(trips.folder / DAY / "hr=09" / f"part-{number}", NOW, f"{number}\n".encode())
    if gone == "the metastore":
        trips.metastore.stop()
    else:
        trips.metastore.drop_table(NAME)
    one = DirectoryRun(
        service=Service.COMPACTION,
        location=trips.folder,
        table={**trips.options, "restore_horizon": "1h"},
        options={"files": "csv"},
    )
    outcome = one.carried_out(Compaction(clock=ManualClock(LATER + timedelta(days=1))))
    assert isinstance(outcome, Succeeded), outcome
    assert len(list((trips.folder / DAY / "hr=09").iterdir())) == 1
    assert (home / "part-1").exists()
    assert list((trips.folder / "_lakewarden").iterdir())


def test_two_folders_that_differ_by_a_zero_are_two_partitions(trips: Trips) -> None:
    """Spark writes `hr=7`, and Flink `hr=07`. Each is listed once, and then nothing is left to do."""
    trips.write(7)
    put(trips.folder / DAY / "hr=7" / "part-1", NOW - 5 * HOUR)
    assert figures(trips.commit())["partitions_committed"] == 2
    assert trips.hours() == ["hr=07", "hr=7"]
    assert isinstance(trips.commit(), NothingToDo)


def test_an_entry_that_an_operator_moves_away_is_seen(trips: Trips) -> None:
    """The partition waits for it no longer, without a restart."""
    home = trips.write(7)
    trips.metastore.add_partition(NAME, ("wrong", "1"), f"file:{home}")
    table = directory_table(
        trips.folder,
        PartitionCommitOptions.model_validate({"policy": "metastore"}),
        DirectoryTableOptions.model_validate(trips.options),
    )
    first = DirectoryFormat().observe(table, LocalStorage(), None, now=NOW)
    assert Service.PARTITION_COMMIT not in first.view.backlogs
    [one] = trips.metastore.partitions_of(NAME).values()
    one.sd.location = "file:/lake/elsewhere"
    trips.alter(one)
    second = DirectoryFormat().observe(table, LocalStorage(), first, now=NOW + timedelta(minutes=11))
    assert second.view.backlogs[Service.PARTITION_COMMIT].commits == 1


def test_a_folder_to_which_another_partition_leads_is_not_listed_twice(trips: Trips) -> None:
    """Also if the partition with that entry has a folder of its own."""
    home = trips.write(7)
    trips.write(8)
    trips.metastore.add_partition(NAME, ("2026-03-10", "08"), f"file:{home}")
    assert isinstance(trips.commit(), NothingToDo)
    assert trips.hours() == ["hr=07"]


def test_what_a_killed_ttl_has_left_is_for_the_next_ttl(trips: Trips) -> None:
    """Compaction may be Blocked, as by the list of a streaming sink. A run that is under way calls no other service."""
    trips.write(7)
    trips.commit()
    with pytest.raises(KilledError):
        trips.expire(now=LATER, kill=Point.EXCHANGED)
    always = NumCommits(at_least=1)
    table = Table(
        id=TableId("trips"),
        format="directory",
        location=str(trips.folder),
        options=DirectoryTableOptions.model_validate({"restore_horizon": "1h"}),
        policies={
            Service.COMPACTION: Policy(trigger=always, options=CompactionOptions()),
            Service.TTL: Policy(trigger=always, options=TtlOptions.model_validate({"retain": "3650d"})),
        },
    )
    trips.write(8)
    view = DirectoryFormat().observe(table, LocalStorage(), None, now=NOW).view
    assert {service for service, backlog in view.backlogs.items() if backlog.unfinished} == {Service.TTL}
