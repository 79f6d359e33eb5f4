"""The kernel refuses one partition. It stays as it is, its name is told, and every other one gets its service."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from lakewarden.executors.contract import NothingToDo, Outcome, Program
from lakewarden.executors.programs.directory.compaction import Compaction
from lakewarden.executors.programs.directory.orphans import Orphans
from lakewarden.executors.programs.directory.partition_commit import PartitionCommit
from lakewarden.executors.programs.directory.ttl import Ttl
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service
from tests.support.directory.directories import age, put
from tests.support.directory.directory_runs import DirectoryRun, figures
from tests.support.directory.mere_user import mere_user

NOW = datetime.now(UTC)
OLD = NOW - timedelta(days=8)
FOREIGN, OWN = "dt=2026-03-01", ("dt=2026-03-02", "dt=2026-03-03")
PART = ".part-a-0-1.inprogress.77"

SERVICES: dict[Service, tuple[Callable[..., Program], dict[str, Any]]] = {
    Service.COMPACTION: (Compaction, {"files": "csv", "max_partitions": 1}),
    Service.ORPHANS: (Orphans, {}),
    Service.PARTITION_COMMIT: (PartitionCommit, {}),
    Service.TTL: (Ttl, {"retain": "7d"}),
}


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Path]:
    """Return a directory with three partitions. Nothing can be written into the first, or taken out of it."""
    for partition in (FOREIGN, *OWN):
        for number in range(6):
            put(tmp_path / partition / f"part-{number}", OLD, f"{number},click\n".encode())
    (tmp_path / FOREIGN).chmod(0o555)
    with mere_user():
        yield tmp_path
    for folder in (tmp_path / FOREIGN, *tmp_path.glob("_lakewarden/*/new")):
        if folder.is_dir():
            folder.chmod(0o755)


def run(table: Path, service: Service) -> Outcome:
    program, options = SERVICES[service]
    one = program(clock=ManualClock(NOW))
    horizon = {"restore_horizon": "7d"} if service in (Service.COMPACTION, Service.ORPHANS) else {}
    return DirectoryRun(service=service, location=table, table=horizon, options=options).carried_out(one)


def with_parts(table: Path) -> None:
    for partition in (FOREIGN, *OWN):
        (table / partition).chmod(0o755)
        put(table / partition / PART, OLD)
        age(table / partition, OLD)
    (table / FOREIGN).chmod(0o555)


def names(table: Path, partition: str) -> set[str]:
    return {one.name for one in (table / partition).iterdir()} if (table / partition).is_dir() else set()


@pytest.mark.parametrize("service", SERVICES)
def test_the_others_get_their_service(table: Path, service: Service) -> None:
    """Runs go on until nothing is left to do. The next run does not fail either."""
    if service is Service.ORPHANS:
        with_parts(table)
    before = {one: names(table, one) for one in (FOREIGN, *OWN)}
    with structlog.testing.capture_logs() as told:
        figures(run(table, service))
        if service is Service.COMPACTION:
            figures(run(table, service))
        rests = run(table, service)
    assert isinstance(rests, NothingToDo)
    assert rests.again is not None
    assert rests.again >= timedelta(minutes=1)
    assert names(table, FOREIGN) == before[FOREIGN]
    assert all(names(table, own) != before[own] for own in OWN)
    refused = [one for one in told if "Permission denied" in str(one)]
    assert any(FOREIGN in str(one) for one in refused)
    assert not list(table.glob("_lakewarden/*"))


@pytest.mark.parametrize("number", [errno.EPERM, errno.EBUSY])
def test_an_expired_partition_that_can_be_moved_and_not_emptied_stops_no_other(table: Path, number: int) -> None:
    """As with an immutable or a mounted file. What is left is named, with the remedy, and readers do not see it."""
    (table / FOREIGN).chmod(0o755)
    today = table / f"dt={NOW:%Y-%m-%d}"
    put(today / "part-0", NOW)
    unlink = os.unlink

    def refuses(path: str, **further: Any) -> None:
        if str(path).endswith("/new/part-3") and Path(path).stat().st_ino == inode:
            raise OSError(number, os.strerror(number), path)
        unlink(path, **further)

    inode = (table / FOREIGN / "part-3").stat().st_ino
    with pytest.MonkeyPatch.context() as patch, structlog.testing.capture_logs() as told:
        patch.setattr(os, "unlink", refuses)
        assert figures(run(table, Service.TTL))["partitions_deleted"] == len(OWN)
        assert isinstance(run(table, Service.TTL), NothingToDo)
    assert {one.name for one in table.iterdir()} == {"_lakewarden", today.name}
    assert any(one["event"] == "act_not_ended" and "delete " in one["remedy"] for one in told)
    assert isinstance(run(table, Service.TTL), NothingToDo)
    assert list(table.iterdir()) == [today]
