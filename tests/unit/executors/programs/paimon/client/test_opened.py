"""A table that is opened for one run."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from lakewarden.executors.contract import Assignment
from lakewarden.executors.programs.paimon.client.opened import OpenTable, meaning, translated
from lakewarden.planners.formats.paimon.deletion.roots import read_consumers, read_roots
from lakewarden.planners.formats.paimon.metadata.files import WAITS, CorruptMetadataError, corrupt, once_whole
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import (
    LakewardenError,
    NotYetError,
    PermanentError,
    TemporaryError,
    UnknownError,
    YieldError,
)
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.storage import LocalStorage
from tests.support.paimon.paimon_look import registered
from tests.support.paimon.paimon_table import PaimonTable


class HalfWritten(LocalStorage):
    """Tags and consumers that a client of Paimon is overwriting: the first read of each finds it empty."""

    def __init__(self) -> None:
        self.found = set[str]()

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        """Return what a file holds."""
        if Path(location).parent.name in ("tag", "consumer") and location not in self.found:
            self.found.add(location)
            return b""
        return super().read(location, limit=limit)


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    """Return a table with a tag and a consumer."""
    table = PaimonTable(tmp_path / "t", clock=ManualClock())
    table.append()
    table.tag("daily")
    table.consume("dashboard", 1)
    return table


def test_a_tag_or_a_consumer_that_is_half_written_is_read_again(table: PaimonTable) -> None:
    """Paimon overwrites them in their places."""
    location, storage = str(table.folder), HalfWritten()
    assert [one.next for one in read_consumers(location, storage)] == [1]
    assert [one.id for one in read_roots(location, storage).snapshots.values()] == [1]


def test_a_run_reads_a_tag_or_a_consumer_that_is_half_written_again(table: PaimonTable) -> None:
    """No run of any service fails by it."""
    assignment = Assignment(
        run=RunId(uuid4().hex[:16]),
        epoch=1,
        table=registered(table).id,
        format="paimon",
        location=str(table.folder),
        service=Service.COMPACTION,
    )
    opened = OpenTable(
        spark=None,
        java=None,
        assignment=assignment,
        table=registered(table),
        storage=HalfWritten(),
        clock=table.clock,
        scratch=Path("/nowhere"),
    )
    assert len(opened.look().facts.references.consumers) == 1


def test_a_file_that_stays_damaged_is_an_error_after_a_second() -> None:
    waits: list[float] = []

    def read() -> None:
        raise corrupt("consumer-a", "consumer", "no JSON")

    with pytest.raises(CorruptMetadataError, match="consumer-a"):
        once_whole(read, pause=waits.append)
    assert tuple(waits) == WAITS
    assert 0.9 < sum(waits) < 1.1


# What Paimon's exceptions mean to the daemon.


@pytest.mark.parametrize(
    ("causes", "kind"),
    [
        (["java.lang.RuntimeException: File deletion conflicts detected! Give up committing."], YieldError),
        (["java.io.UncheckedIOException: x", "java.io.FileNotFoundException: /t/p/data-1.parquet"], TemporaryError),
        (["java.io.IOException: No space left on device"], TemporaryError),
        (["java.lang.RuntimeException: Could not find any factory for identifier 'lance'"], PermanentError),
        (["org.apache.paimon.table.source.EndOfScanException"], NotYetError),
        (["java.lang.RuntimeException: anything else"], TemporaryError),
    ],
)
def test_a_java_exception_means_what_the_daemon_does_next(causes: list[str], kind: type[LakewardenError]) -> None:
    """Paimon's client publishes nothing, so nothing is unknown after its exceptions, in the commit step neither."""
    assert type(meaning(causes, Step.COMMIT)) is kind


def test_a_jvm_that_is_gone_leaves_the_end_unknown() -> None:
    """The run then publishes nothing, and deletes nothing."""
    with pytest.raises(UnknownError, match="the JVM cannot be reached"), translated(Step.COMMIT):
        raise ConnectionRefusedError("the JVM is gone")
