"""Archive of Paimon tables: manifests become fewer, beside writers, and the table has the same files and rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakewarden.executors.contract import NothingToDo, Succeeded
from lakewarden.planners.model.instant import Service
from tests.integration.paimon.test_compaction import KINDS
from tests.support.daemon.daemon_process import DaemonProcess
from tests.support.paimon.paimon_orders import PaimonOrders, rows
from tests.support.paimon.paimon_proofs import kept_between_permit_and_commit, settled_after_a_kill, writing

if TYPE_CHECKING:
    from tests.integration.paimon.conftest import Lake
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

ARCHIVE = {"archive": {"trigger": {"num_commits": 5}}}


@pytest.mark.parametrize("kind", ["fixed", "deletion vectors", "changelog by lookup", "append"])
def test_an_archive_merges_manifests_and_leaves_every_file_where_it_is(driver: Driver, lake: Lake, kind: str) -> None:
    """Also the manifests that delete files, after a compaction. A second archive finds nothing to do."""
    keyed, options = KINDS[kind]
    table = lake(keyed=keyed, options=options)
    for number in range(6):
        table.write(rows(number, f"v{number}"))
    driver.carry_out(table, Service.COMPACTION)
    table.write(rows(3, "last"))
    data, live, read = table.data_files(), sorted(table.live_files()), table.read()
    before = table.snapshots()[-1]

    outcome = driver.carry_out(table, Service.ARCHIVE)

    assert isinstance(outcome, Succeeded), outcome
    assert outcome.figures["manifests_after"] == 1
    assert int(outcome.figures["manifests_before"]) > 1
    assert (table.data_files(), sorted(table.live_files()), table.read()) == (data, live, read)
    after = table.snapshots()[-1]
    assert (after["id"], after["commitKind"]) == (before["id"] + 1, "COMPACT")
    same = ("schemaId", "indexManifest", "totalRecordCount", "watermark", "statistics")
    assert [after.get(key) for key in same] == [before.get(key) for key in same]
    assert isinstance(driver.carry_out(table, Service.ARCHIVE), NothingToDo)
    table.write(rows(50, "later"))
    driver.carry_out(table, Service.COMPACTION)
    assert table.read() == sorted(table.expected)


def test_a_write_between_the_permit_of_an_archive_and_its_commit_is_kept(driver: Driver, orders: PaimonOrders) -> None:
    """The merge is made from the newest snapshot."""
    kept_between_permit_and_commit(driver, orders, Service.ARCHIVE)


def test_an_archive_beside_a_writer_loses_nothing(
    orders: PaimonOrders, daemon_of: Callable[..., DaemonProcess]
) -> None:
    """Also of a table that its writers compact themselves. Each read between finds every row."""
    orders.alter("write-only", "false")
    daemon = daemon_of(orders, ARCHIVE, formats=["paimon"])
    daemon.start()
    seen: list[bool] = []
    write = writing(orders, seen)

    def twice_merged() -> bool:
        write()
        return len([run for run in daemon.runs("archive") if run["state"] == "SUCCEEDED"]) >= 2

    daemon.until(twice_merged)
    assert all(seen)
    assert orders.read() == sorted(orders.expected)
    assert [run["outcome"] for run in daemon.runs("archive") if run["state"] == "FAILED"] == []
    assert daemon.stop() == 0


@pytest.mark.parametrize(
    ("point", "commits"),
    [("planned", [0, 1]), ("permitted", [0, 1]), ("proposed", [0, 1]), ("committed", [1]), ("settled", [1])],
)
@pytest.mark.faults
def test_an_archive_killed_at_a_point_is_settled_by_what_the_table_shows(
    orders: PaimonOrders,
    daemon_of: Callable[..., DaemonProcess],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
    commits: list[int],
) -> None:
    """For every point the manifests are merged once, and every row is right."""
    settled_after_a_kill(
        orders,
        ARCHIVE,
        daemon_of,
        tmp_path,
        monkeypatch,
        point=point,
        commits=commits,
        signature="lakewarden-{}.manifests",
    )
