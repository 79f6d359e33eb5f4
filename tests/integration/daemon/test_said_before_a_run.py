"""Tables with half of their metadata, or with a hazard, by a started daemon: what is said before a run."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from lakewarden.planners.model.clock import ManualClock, SystemClock
from tests.support.daemon.daemon_process import DaemonProcess
from tests.support.hudi.hudi_table import HudiTable, log_file
from tests.support.iceberg.iceberg_table import POSITION_DELETES, IcebergTable

pytestmark = pytest.mark.core

LAKE = "lake"
ON_DEMAND: Mapping[str, Any] = {"trigger": {"num_commits": 1000}}
CLEAN: Mapping[str, Any] = {**ON_DEMAND, "options": {"max_snapshot_age": "1d", "min_snapshots_to_keep": 1}}
OF_ICEBERG = {**dict.fromkeys(("compaction", "archive", "orphans", "table_stats"), ON_DEMAND), "clean": CLEAN}
OF_HUDI = dict.fromkeys(("compaction", "clustering", "clean", "archive"), ON_DEMAND)
EVERY = ("compaction", "clean", "archive")
DELETING = ("clean", "orphans")


def iceberg(folder: Path, **table: Any) -> IcebergTable:
    """Return a table of three commits, of the last three days."""
    clock = ManualClock(SystemClock().now() - timedelta(days=3))
    made = IcebergTable(folder, clock=clock, **table)
    for _ in range(3):
        made.append(*(made.file() for _ in range(5)))
        clock.advance(timedelta(hours=20))
    return made


def hudi(folder: Path, *, ahead: timedelta = timedelta(0), deletes: int = 0) -> HudiTable:
    """Return a table with three writes of now, or of a time ahead of it."""
    clock = ManualClock(SystemClock().now() - timedelta(seconds=30) + ahead)
    made = HudiTable(folder, version=9, clock=clock, zone=ZoneInfo("UTC"))
    group = "f3a1c0de-6a0e-4a1c-9b52-3f8f6e5e6b7a-0"
    for _ in range(3):
        made.write({"p": [log_file(group, "1", deletes=deletes)]})
    return made


def hint_behind(folder: Path) -> None:
    """Let the hint say 3, and the newest version be 11. Those between are deleted."""
    table = iceberg(folder)
    table.metadata_file.rename(table.metadata / "v11.metadata.json")
    (table.metadata / "version-hint.text").write_text("3")


def dated_in_the_future(folder: Path) -> None:
    """Let the clock of the last writer be ten minutes ahead."""
    table = iceberg(folder)
    table.clock = ManualClock(SystemClock().now() + timedelta(minutes=10))
    table.append()


def two_vectors(folder: Path) -> None:
    """Give one data file two deletion vectors."""
    table = iceberg(folder, version=3)
    file = table.live()[0]
    for name in ("one", "two"):
        path = f"{folder}/data/{name}.puffin"
        vector = dataclasses.replace(file, path=path, content=POSITION_DELETES, format="PUFFIN", references=file.path)
        table.commit("delete", add=[vector])


def tag_without_snapshot(folder: Path) -> None:
    """Name a snapshot by a tag that is in no list of the metadata."""
    table = iceberg(folder)
    table.refs["audit"] = {"snapshot-id": 4711, "type": "tag"}
    table.save()


def tag_without_manifest_list(folder: Path) -> None:
    """Delete the manifest list of an old snapshot with a tag."""
    table = iceberg(folder)
    first = next(iter(table.snapshots.values())).line
    table.refs["audit"] = {"snapshot-id": first["snapshot-id"], "type": "tag"}
    table.save()
    Path(first["manifest-list"]).unlink()


def made_by_uniform(folder: Path) -> None:
    """Write the metadata of Iceberg into the folder of a Delta table, as UniForm does."""
    iceberg(folder, properties={"delta-version": "7", "delta-timestamp": "1700000000000"})
    log = folder / "_delta_log"
    log.mkdir()
    told = {"metaData": {"configuration": {"delta.universalFormat.enabledFormats": "iceberg"}}}
    (log / f"{7:020}.json").write_text(json.dumps(told))


def made_by_paimon(folder: Path) -> None:
    """Write the metadata of Iceberg into the folder of a Paimon table, as its writers do."""
    iceberg(folder)
    (folder / "schema").mkdir()
    told = {"id": 0, "options": {"metadata.iceberg.storage": "table-location"}}
    (folder / "schema" / "schema-0").write_text(json.dumps(told))


def properties_broken_off(folder: Path) -> None:
    """Take a line out of `hoodie.properties` that its backup has."""
    file = hudi(folder).home / "hoodie.properties"
    shutil.copy(file, file.with_name("hoodie.properties.backup"))
    file.write_text("".join(line for line in file.read_text().splitlines(True) if "partition.fields" not in line))


def instant_in_the_future(folder: Path) -> None:
    """Let the clock of the last writer be ten minutes ahead."""
    hudi(folder, ahead=timedelta(minutes=10))


@dataclass(frozen=True)
class Case:
    """A table, and what is said of its services."""

    make: Callable[[Path], None]
    said: str
    remedy: str
    services: tuple[str, ...] = EVERY

    @property
    def name(self) -> str:
        return self.make.__name__

    @property
    def is_hudi(self) -> bool:
        return self.make in (properties_broken_off, instant_in_the_future)


CASES = [
    Case(hint_behind, "v11.metadata.json is a newer version of this table", "delete version-hint.text"),
    Case(dated_in_the_future, "ahead of this daemon's clock", "compare the clocks", ("compaction", "clean")),
    Case(two_vectors, "has two deletion vectors", "removeDeletes and addDeletes", ("compaction", "table_stats")),
    Case(tag_without_snapshot, "the tag audit is snapshot 4711, which is not there", "remove_tag('audit')"),
    Case(tag_without_manifest_list, "(the tag 'audit') is missing its manifest list", "by_id(", DELETING),
    Case(made_by_uniform, "a copy of the metadata of a Delta table, made by UniForm", "as a Delta table"),
    Case(made_by_paimon, "a copy of the metadata of a Paimon table", "as a Paimon table"),
    Case(properties_broken_off, "hoodie.properties is incomplete: it lacks hoodie.table.partition.fields", "backup"),
    Case(instant_in_the_future, "ahead of this daemon's clock", "compare the clocks"),
]


class Lake:
    """All tables in one folder, and their daemon. Each lies under the name of what is the matter with it."""

    catalogs: Mapping[str, Any] = {}

    def __init__(self, folder: Path) -> None:
        self.folder = folder / LAKE
        self.entries = [self.entry(case.name, is_hudi=case.is_hudi) for case in CASES]
        for case in CASES:
            case.make(self.folder / case.name)
        self.entries += [self.entry("expiring", is_hudi=False), self.entry("deleting", is_hudi=True)]
        iceberg(self.folder / "expiring")
        hudi(self.folder / "deleting", deletes=1)
        self.configured, *others = self.entries
        self.daemon = DaemonProcess(folder, self, self.configured["services"], others=others)

    def entry(self, name: str, *, is_hudi: bool) -> Mapping[str, Any]:
        """Return the entry of a table in the configuration."""
        return {
            "id": f"{LAKE}.{name}",
            "format": "hudi" if is_hudi else "iceberg",
            "path": str(self.folder / name),
            "services": OF_HUDI if is_hudi else OF_ICEBERG,
            "options": {"writers": "none"} if is_hudi else {},
        }

    def files(self, name: str) -> Mapping[str, int]:
        """Return the files of a table, each with the time of its last change."""
        below = self.folder / name
        return {str(path): path.stat().st_mtime_ns for path in below.rglob("*") if path.is_file()}

    def printed(self, *command: str) -> str:
        """Return what a command of Lakewarden prints, without its line breaks."""
        asked = [sys.executable, "-m", "lakewarden.cli", *command]
        done = subprocess.run(asked, capture_output=True, check=False, text=True, cwd=self.daemon.folder)
        return " ".join(f"{done.stdout} {done.stderr}".split())

    def explained(self, name: str) -> str:
        """Return what `lakewarden explain` prints of a table that was observed."""
        self.daemon.until(lambda: all(one["decision"] for one in self.services(name).values()))
        return self.printed("explain", f"{LAKE}.{name}", "--url", self.daemon.url)

    def services(self, name: str) -> Mapping[str, Any]:
        """Return what the daemon knows of the services of a table. Fails if it is not known."""
        found: Mapping[str, Any] = self.daemon.get(f"/v1/tables/{LAKE}.{name}")["services"]
        return found


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Start the daemon."""
    made = Lake(tmp_path_factory.mktemp("said"))
    made.daemon.start()
    yield made
    made.daemon.end()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_what_no_run_may_change_is_named_and_refused_before_a_run(lake: Lake, case: Case) -> None:
    """`explain` has the reason and the remedy. A run that is asked for is refused with them. No file changes."""
    files = lake.files(case.name)
    explained = lake.explained(case.name)
    assert case.said in explained
    assert case.remedy in explained
    for service in (one for one in case.services if one in lake.services(case.name)):
        answer = lake.daemon.post(f"/v1/tables/{LAKE}.{case.name}/services/{service}/runs")
        assert answer.status_code == 409, (service, answer.text)
        assert case.said in answer.text, service
    assert lake.daemon.get(f"/v1/runs?table={LAKE}.{case.name}")["items"] == []
    assert lake.files(case.name) == files


def test_explain_says_how_far_back_a_stream_may_be(lake: Lake) -> None:
    """Two of the three snapshots may expire."""
    explained = lake.explained("expiring")
    assert "2 snapshots may expire now" in explained
    assert "fails afterwards if it has not read main up to the snapshot of 20" in explained


def test_a_key_that_may_come_back_is_named_before_the_first_run(lake: Lake) -> None:
    """`explain` says what compactions do about it, and has the query for doubled keys, as `doctor` does."""
    query = "GROUP BY 1, 2 HAVING count(*) > 1"
    explained = lake.explained("deleting")
    assert "leaves out the file groups in which one of their keys was written again since its plan" in explained
    assert query in explained
    assert query in lake.printed("explain", str(lake.folder / "deleting"))
    assert query in lake.printed("doctor", "--config", "lakewarden.yaml")
