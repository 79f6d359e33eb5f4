"""A clean that waits for its approval, through a daemon, beside a writer that archives inline by default."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.planners.model.instant import Service
from tests.support.doubles.fault_points import VARIABLE
from tests.support.hudi.orders import Orders

if TYPE_CHECKING:
    from tests.support.daemon.daemon_process import DaemonProcess

pytestmark = pytest.mark.spark

ONLY_WHEN_ASKED = {"trigger": {"num_commits": 1000}}
SERVICES = {
    "compaction": ONLY_WHEN_ASKED,
    "clean": {**ONLY_WHEN_ASKED, "options": {"commits_retained": 1}},
    "archive": {**ONLY_WHEN_ASKED, "options": {"keep_min_commits": 2, "keep_max_commits": 3}},
}
ARCHIVES = {
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.metadata.compact.max.delta.commits": "1",
}


class Asking(Orders):
    """The orders, with a budget that every clean exceeds."""

    @property
    def configured(self) -> Mapping[str, Any]:
        """What its entry in a configuration says of the table itself."""
        return {**super().configured, "budget": {"files": 0}}


def run(daemon: DaemonProcess, service: str, state: str = "SUCCEEDED") -> dict[str, Any]:
    """Ask for a run by REST, and return it when it has ended so."""
    asked = daemon.post(f"/v1/tables/sales.orders/services/{service}/runs")
    assert asked.is_success, asked.text
    ended: dict[str, Any] = daemon.until(
        lambda: next(
            (
                run
                for run in daemon.runs(service)[:1]
                if run["state"] not in ("QUEUED", "LEASED", "RUNNING", "COMMITTING")
            ),
            None,
        )
    )
    assert ended["state"] == state, ended
    return ended


def test_updates_survive_while_a_clean_waits_for_its_approval(
    orders: Orders, daemon_of: Callable[..., DaemonProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run is asked for by REST, and the writer's own archive goes past everything that it may go past.

    It also goes past the commit from which on the clean was to keep everything. So the clean asks again. The run that
    asked first was killed before it withdrew its plan. The next run does that.
    """
    faults, told = tmp_path / "faults.json", tmp_path / "stands-here"
    monkeypatch.setenv(VARIABLE, str(faults))
    table = Asking(**vars(orders))
    daemon = daemon_of(table, SERVICES)
    daemon.start()
    daemon.until(daemon.workers_ready)
    table.write(keys=9)
    run(daemon, "compaction")
    table.write(keys=9)
    run(daemon, "compaction")
    table.write(keys=1)

    faults.write_text(json.dumps([{"point": "withdrawing", "act": "hold", "service": "clean", "told": str(told)}]))
    assert daemon.post("/v1/tables/sales.orders/services/clean/runs").is_success
    daemon.until(told.exists)
    faults.unlink()
    assert daemon.get("/v1/approvals")["items"]
    assert table.plans_of(Service.CLEAN)
    daemon.kill_worker_jvm()
    told.unlink()
    asked = daemon.until(lambda: [one for one in daemon.runs("clean")[:-1] if one["state"] == "YIELDED"])[0]

    (shown,) = daemon.get("/v1/approvals")["items"]
    assert asked["reason"]
    assert shown["files"] > 0
    assert not table.plans_of(Service.CLEAN)

    table.conf = ARCHIVES
    for keys in (10, 9, 8, 7, 6, 5, 4, 3, 2, 1):
        table.write(keys=keys)
    run(daemon, "archive")
    run(daemon, "compaction")
    assert table.found() == table.expected

    approved(daemon, shown)
    (anew,) = daemon.until(lambda: [one for one in daemon.get("/v1/approvals?waiting=true")["items"] if one != shown])
    before = len(table.data_files())
    approved(daemon, anew)
    cleaned = daemon.until_succeeded("clean")
    assert cleaned["figures"]["files_deleted"] == anew["files"] == before - len(table.data_files())
    assert table.found() == table.expected
    assert daemon.stop() == 0


def approved(daemon: DaemonProcess, shown: Mapping[str, Any]) -> None:
    """Approve the deletion that waits."""
    assert daemon.get("/v1/approvals?waiting=true")["items"] == [shown]
    assert daemon.post("/v1/tables/sales.orders/services/clean/approval").is_success
