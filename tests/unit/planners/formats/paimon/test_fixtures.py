"""What is read of real tables is what their own clients say of them (made by tests/fixtures/paimon/generate.py)."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
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


def test_there_are_tables_of_both_clients() -> None:
    """Nothing below passes because there was nothing to compare."""
    assert {name.partition("_")[0] for name in NAMES} == {"pypaimon", "spark"}
    assert len(NAMES) >= 7


@pytest.mark.parametrize("name", NAMES)
def test_the_files_are_those_that_the_client_lists(name: str, tmp_path: Path) -> None:
    """By partition, bucket and level: how many, their rows and their bytes. Of a table with deletion vectors Paimon's
    own list has no file of level 0, because readers do not see it.
    """
    found = seen(name, tmp_path)
    theirs: Counter[tuple[str, int, int]] = Counter()
    rows: Counter[tuple[str, int, int]] = Counter()
    sizes: Counter[tuple[str, int, int]] = Counter()
    for one in says(name)["files"]:
        key = (value_of(one["partition"]), one["bucket"], one["level"])
        theirs[key] += 1
        rows[key] += one["record_count"]
        sizes[key] += one["file_size_in_bytes"]
    schema, totals = found.facts.schema, found.memo.totals
    assert totals is not None
    hidden = schema.options.hides_level_0
    named = {
        (value_of(partition_path(row, schema.partition_keys, schema.partition_types)), bucket, level): tally
        for (row, bucket, level), tally in totals.items()
        if level or not hidden
    }
    assert {key: tally.files for key, tally in named.items()} == theirs
    assert {key: tally.rows for key, tally in named.items()} == rows
    assert {key: tally.bytes for key, tally in named.items()} == sizes


@pytest.mark.parametrize("name", NAMES)
def test_the_snapshots_are_those_that_the_client_lists(name: str, tmp_path: Path) -> None:
    """Their numbers, kinds and users."""
    found = seen(name, tmp_path).facts.history
    assert found.faults == ()
    ours = [
        {
            "snapshot_id": one.id,
            "commit_kind": one.kind,
            "commit_user": one.user,
            "total_record_count": one.records,
        }
        for one in found.snapshots
    ]
    assert ours == sorted(says(name)["snapshots"], key=lambda one: one["snapshot_id"])


@pytest.mark.parametrize("name", NAMES)
def test_the_references_are_those_that_the_client_lists(name: str, tmp_path: Path) -> None:
    """Tags with their snapshots, branches, and consumers with their positions."""
    found, said = seen(name, tmp_path).facts.references, says(name)
    assert [{"tag_name": one.name, "snapshot_id": one.snapshot} for one in found.tags] == said["tags"]
    assert [{"branch_name": one.name} for one in found.branches] == said["branches"]
    assert [{"consumer_id": one.name, "next_snapshot_id": one.next} for one in found.consumers] == said["consumers"]


@pytest.mark.parametrize("name", NAMES)
def test_a_real_table_has_neither_faults_nor_warnings(name: str, tmp_path: Path) -> None:
    """The rows of its manifests are those that its newest snapshot counts."""
    seen(name, tmp_path)
    table = Table(id=TableId("t"), format="paimon", location=str(tmp_path))
    view = PaimonFormat().observe(table, LocalStorage(), None, now=NOW).view
    assert (view.faults, view.warnings) == ((), ())
    assert view.notes[Service.COMPACTION]
