"""A started daemon compacts and cleans a Paimon table beside a live writer, and after kill -9 at every step."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.daemon.daemon_process import DaemonProcess
from tests.support.daemon.held_runs import killed_at
from tests.support.paimon.paimon_orders import PaimonOrders, rows
from tests.support.paimon.paimon_proofs import settled_after_a_kill, writing

pytestmark = pytest.mark.spark

COMPACTION = {"compaction": {"trigger": {"num_commits": 3}}}


def test_a_started_daemon_compacts_beside_a_writer_and_fails_none_of_its_commits(
    orders: PaimonOrders, daemon_of: Callable[..., DaemonProcess]
) -> None:
    """Each read between finds every row that was committed by then, and none twice."""
    daemon = daemon_of(orders, COMPACTION, formats=["paimon"])
    daemon.start()
    seen: list[bool] = []
    write = writing(orders, seen)

    def thrice_compacted() -> bool:
        write()
        return len([run for run in daemon.runs("compaction") if run["state"] == "SUCCEEDED"]) >= 3

    daemon.until(thrice_compacted)

    assert all(seen)
    assert orders.read() == sorted(orders.expected)
    runs = [run for run in daemon.runs("compaction") if run["state"] == "SUCCEEDED"]
    signed = {one["commitUser"] for one in orders.snapshots() if one["commitKind"] == "COMPACT"}
    assert signed >= {f"lakewarden-{run['id']}" for run in runs if run["figures"].get("files_rewritten")}
    assert [run["outcome"] for run in daemon.runs("compaction") if run["state"] == "FAILED"] == []
    assert daemon.stop() == 0


@pytest.mark.parametrize(
    ("point", "commits"),
    [
        ("planned", [0, 1]),
        ("executing", [0, 1]),
        ("executed", [0, 1]),
        ("permitted", [0, 1]),
        ("proposed", [0, 1]),
        ("committed", [1]),
        ("settled", [1]),
    ],
)
@pytest.mark.faults
def test_a_compaction_killed_at_a_point_is_settled_by_what_the_table_shows(
    orders: PaimonOrders,
    daemon_of: Callable[..., DaemonProcess],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
    commits: list[int],
) -> None:
    """For every point the work is done once, and every row is right."""
    settled_after_a_kill(orders, COMPACTION, daemon_of, tmp_path, monkeypatch, point=point, commits=commits)
    assert len(orders.live_files()) == 4


CLEAN = {
    **COMPACTION,
    "clean": {"trigger": {"num_commits": 3}, "options": {"max_snapshot_age": "1s", "min_snapshots_to_keep": 3}},
}
AT_ONCE = {"longest_outage": "0s", "flink_restores": "0s", "keep_last_flink_commit": False}


def test_a_started_daemon_cleans_beside_a_writer_and_a_tag_and_the_newest_snapshots_are_read_on(
    orders: PaimonOrders, daemon_of: Callable[..., DaemonProcess]
) -> None:
    """Old snapshots go with their files. Each read between finds every row, and the tag is read as before."""
    orders.told = AT_ONCE
    orders.tag("first", 2)
    tagged = orders.read(scan__tag_name="first")
    daemon = daemon_of(orders, CLEAN, formats=["paimon"])
    daemon.start()
    seen: list[bool] = []
    write = writing(orders, seen)

    def twice_cleaned() -> bool:
        write()
        cleans = [run["figures"] for run in daemon.runs("clean") if run["state"] == "SUCCEEDED"]
        files = any(one.get("files_deleted") for one in cleans)
        return files and sum(one.get("snapshots_expired", 0) > 0 for one in cleans) >= 2

    daemon.until(twice_cleaned)
    assert all(seen)
    assert orders.read() == sorted(orders.expected)
    assert orders.read(scan__tag_name="first") == tagged
    assert orders.snapshots()[0]["id"] > 6
    assert [run["outcome"] for service in CLEAN for run in daemon.runs(service) if run["state"] == "FAILED"] == []
    assert daemon.stop() == 0


@pytest.mark.parametrize("point", ["planned", "executing", "permitted", "expiring", "deleting", "expired", "committed"])
@pytest.mark.faults
def test_a_clean_killed_at_a_point_leaves_a_table_that_is_read_and_is_carried_on(
    orders: PaimonOrders,
    daemon_of: Callable[..., DaemonProcess],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
) -> None:
    """For every point: the next run deletes the rest, and no file is left that nothing needs."""
    orders.told = AT_ONCE
    orders.compact_itself()
    orders.write(rows(3, "last"))
    options = {"max_snapshot_age": "0s", "min_snapshots_to_keep": 1}
    clean = {"clean": {"trigger": {"num_commits": 1}, "options": options}}
    start = functools.partial(daemon_of, orders, clean, formats=["paimon"])
    daemon = killed_at(point, "clean", start, tmp_path, monkeypatch)
    assert orders.read() == sorted(orders.expected)

    daemon.until(lambda: [one["id"] for one in orders.snapshots()] == [8])
    daemon.until(lambda: all(run["state"] in {"SUCCEEDED", "FAILED"} for run in daemon.runs("clean")))
    assert orders.read() == sorted(orders.expected)
    assert {one.rpartition("/")[2] for one in orders.data_files()} == set(orders.live_files())
    named = {str(one) for one in orders.snapshots()[0].values()}
    lists = {one.removeprefix("manifest/") for one in orders.files() if one.startswith("manifest/manifest-list-")}
    assert lists <= named
    assert daemon.stop() == 0
