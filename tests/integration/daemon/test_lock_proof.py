"""A started daemon beside a real writer. The writer's lock has another key than the policy names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.daemon.daemon_process import TABLE, DaemonProcess

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders

pytestmark = pytest.mark.spark

SERVICES = {
    "compaction": {"trigger": {"num_commits": 2}},
    "clean": {"trigger": {"num_commits": 2}, "options": {"commits_retained": 1}},
}


@dataclasses.dataclass
class Watched:
    """Orders of a table with a lock that must be proved."""

    orders: Orders
    lock: Mapping[str, Any]

    @property
    def configured(self) -> Mapping[str, Any]:
        return {"format": "hudi", "path": self.orders.location, "options": {"lock": dict(self.lock)}}

    @property
    def catalogs(self) -> Mapping[str, Any]:
        return {}


def test_beside_a_writer_with_another_key_nothing_is_committed_until_both_name_one(
    daemon_of: Callable[..., DaemonProcess], orders: Orders
) -> None:
    """The writer commits and Lakewarden does not. The reason names the writer's commit. Once the writer has the right
    key and an operator has confirmed it, its next commits prove the lock, across a restart, and the services run.
    """
    wrong = dataclasses.replace(orders, lock={**orders.lock, "lock_key": "a.typo"})
    daemon = daemon_of(Watched(orders, orders.lock), SERVICES)
    daemon.start()
    daemon.until(lambda: _lock(daemon) is not None)
    _write_until(daemon, "disproved", by=wrong)
    assert "was made without it" in _explained(daemon)["services"]["compaction"]["decision"]["reason"]
    assert daemon.runs("compaction") == daemon.runs("clean") == []
    assert orders.timeline("*.clean*") == orders.timeline("*.compaction*") == []

    assert daemon.stop() == 0
    daemon.start()
    daemon.until(lambda: _lock(daemon) is not None)
    assert _lock(daemon)["verdict"] == "disproved"
    daemon.post(f"/v1/tables/{TABLE}/resume").raise_for_status()
    orders.versions = wrong.versions
    _write_until(daemon, "proved", by=orders)
    daemon.until_succeeded("compaction")
    assert daemon.stop() == 0
    assert orders.found() == orders.expected


def _write_until(daemon: DaemonProcess, verdict: str, *, by: Orders) -> None:
    """Commit again and again. A commit that no observation saw alone proves nothing."""

    def judged() -> bool:
        by.write()
        return str(_lock(daemon)["verdict"]) == verdict

    daemon.until(judged)


def _explained(daemon: DaemonProcess) -> Any:
    return daemon.get(f"/v1/tables/{TABLE}/explain")


def _lock(daemon: DaemonProcess) -> Any:
    answer = _explained(daemon)
    return None if answer is None else answer["lock"]
