"""The suite has a policy for every supported service with work on the table, as a configuration takes it."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from lakewarden.demo.formats.hudi.options import TableType
from lakewarden.planners.model.instant import Service
from lakewarden.planners.registry import FORMATS
from lakewarden.service.config.loading import load
from live.hudi.killed_writers import age_heartbeats
from live.hudi.policies import WriterKind, inline_options, policies
from live.hudi.streaming import forget_last_micro_batch, was_sent_again

SHOWN = [*Service]


@pytest.mark.parametrize("kind", TableType)
@pytest.mark.parametrize("writer", WriterKind)
def test_the_policies_are_a_valid_configuration(tmp_path: Path, kind: TableType, writer: WriterKind) -> None:
    """They are for the services that the format supports now."""
    services = policies(kind, writer, FORMATS["hudi"].services)
    table = {"id": "orders", "format": "hudi", "path": str(tmp_path), "services": services}
    (tmp_path / "lakewarden.yaml").write_text(yaml.safe_dump({"tables": [table]}))

    load(tmp_path / "lakewarden.yaml")


def test_only_what_the_format_supports_and_the_table_can_have_is_asked_for() -> None:
    """Compaction and log compaction have no meaning on a copy-on-write table."""
    of_mor = policies(TableType.MOR, WriterKind.UPSERT, SHOWN).keys()
    of_cow = policies(TableType.COW, WriterKind.UPSERT, SHOWN).keys()

    assert of_mor - of_cow == {"compaction", "log_compaction"}
    assert of_cow >= {"clustering", "clean", "archive", "rollback"}
    assert policies(TableType.MOR, WriterKind.UPSERT, [Service.CLEAN]).keys() == {"clean"}


def test_an_inline_writer_schedules_compaction_alone() -> None:
    """Its compactions are adopted soon, and it is told when to plan them. Its own clusterings would conflict with its
    writes.
    """
    services = policies(TableType.MOR, WriterKind.INLINE, SHOWN)

    assert {name for name, policy in services.items() if policy.get("schedule") == "writer"} == {"compaction"}
    assert inline_options(services).keys() == {"hoodie.compact.inline.max.delta.commits"}
    assert inline_options(["clean"]) == {}


# A dead writer's heartbeat is made older, and no other heartbeat.


def test_only_the_heartbeat_of_the_write_into_the_partition_is_aged(tmp_path: Path) -> None:
    """The name of the dead writer's data file ends with the instant."""
    heartbeats = tmp_path / ".hoodie" / ".heartbeat"
    heartbeats.mkdir(parents=True)
    dead, living = heartbeats / "20260101120000000", heartbeats / "20260101120001000"
    dead.touch()
    living.touch()
    (tmp_path / "lost-1").mkdir()
    (tmp_path / "lost-1" / "1f2e-0_0-10-12_20260101120000000.parquet").touch()

    age_heartbeats(tmp_path, partition="lost-1", age=timedelta(hours=1))

    assert time.time() - dead.stat().st_mtime > 3500
    assert time.time() - living.stat().st_mtime < 3500  # wall time: an hour old is another file


# The records of a streaming query can be removed, as a crash at the wrong moment removes them.


def test_the_newest_micro_batch_is_forgotten_and_was_sent_again_when_it_is_remembered_again(tmp_path: Path) -> None:
    """With its checksum. The newest is found by number, not by name. A query without any commit has sent nothing."""
    log = tmp_path / "checkpoint" / "commits"
    log.mkdir(parents=True)
    assert forget_last_micro_batch(tmp_path) is None
    assert not was_sent_again(tmp_path, None)
    for number in (8, 9, 10):
        (log / str(number)).touch()
        (log / f".{number}.crc").touch()

    assert forget_last_micro_batch(tmp_path) == 10
    assert not was_sent_again(tmp_path, 10)
    assert sorted(path.name for path in log.iterdir()) == [".8.crc", ".9.crc", "8", "9"]

    (log / "10").touch()
    assert was_sent_again(tmp_path, 10)
