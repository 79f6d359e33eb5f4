"""What is read of real tables is what their own clients say of them (made by tests/fixtures/paimon/generate.py)."""

from __future__ import annotations

import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakewarden.planners.formats.paimon import PaimonFormat
from lakewarden.planners.formats.paimon.backlog.manifests_read import Memo
from lakewarden.planners.formats.paimon.metadata.files import partition_path
from lakewarden.planners.formats.paimon.observing import Look, look
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.storage import LocalStorage

FIXTURES = Path(__file__).parents[4] / "fixtures" / "paimon"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.zip"))
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def says(name: str) -> Any:
    return json.loads((FIXTURES / f"{name}.json").read_text())


def seen(name: str, folder: Path) -> Look:
    with zipfile.ZipFile(FIXTURES / f"{name}.zip") as archive:
        archive.extractall(folder)
    return look(str(folder), LocalStorage(), Memo(), head=None, now=NOW)


def value_of(partition: str) -> str:
    """Return the value of `dt` in a partition, as the client spells partitions."""
    return partition.strip("[]{}").partition("=")[2] or partition.strip("[]{}")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_is_what_the_client_says(name: str, tmp_path: Path) -> None:
    """The snapshots, what refers to them, and the files by partition, bucket and level: how many, their rows and their
    bytes. Of a table with deletion vectors Paimon's own list has no file of level 0, because readers do not see it.
    """
    found, said = seen(name, tmp_path), says(name)
    theirs: dict[tuple[str, int, int], list[int]] = {}
    for one in said["files"]:
        sums = theirs.setdefault((value_of(one["partition"]), one["bucket"], one["level"]), [0, 0, 0])
        sums[:] = [sums[0] + 1, sums[1] + one["file_size_in_bytes"], sums[2] + one["record_count"]]
    schema, hidden = found.facts.schema, found.facts.schema.options.hides_level_0
    assert theirs == {
        (value_of(partition_path(row, schema.partition_keys, schema.partition_types)), bucket, level): list(tally[:3])
        for (row, bucket, level), tally in found.totals.items()
        if level or not hidden
    }
    history, references = found.facts.history, found.facts.references
    keys = ("snapshot_id", "commit_kind", "commit_user", "total_record_count")
    theirs_of_snapshots = [tuple(one[key] for key in keys) for one in said["snapshots"]]
    assert [(one.id, one.kind, one.user, one.records) for one in history.snapshots] == sorted(theirs_of_snapshots)
    assert [{"tag_name": one.name, "snapshot_id": one.snapshot} for one in references.tags] == said["tags"]
    assert [{"branch_name": one.name} for one in references.branches] == said["branches"]
    consumers = [{"consumer_id": one.name, "next_snapshot_id": one.next} for one in references.consumers]
    assert consumers == said["consumers"]
    table = Table(id=TableId("t"), format="paimon", location=str(tmp_path))
    view = PaimonFormat().observe(table, LocalStorage(), None, now=NOW).view
    assert (view.faults, view.warnings) == ((), ())
    assert view.notes[Service.COMPACTION]


def test_there_are_tables_of_both_clients() -> None:
    """Nothing above passes because there was nothing to compare."""
    assert {name.partition("_")[0] for name in NAMES} == {"pypaimon", "spark"}
    assert len(NAMES) >= 7
