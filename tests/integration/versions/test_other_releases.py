"""A table of another Hudi release is observed as that release sees it, and serviced by ours. Afterwards its release can
still use it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.executors.contract import Succeeded
from lakewarden.planners.model.instant import Service
from tests.integration.versions.conftest import COPY_ON_WRITE, MERGE_ON_READ, ReleaseOrders
from tests.support.hudi.hudi_bundles import HUDI_BUNDLES
from tests.support.hudi.hudi_says import instants, pending_compactions

if TYPE_CHECKING:
    from tests.support.pool.driver import Driver

pytestmark = [pytest.mark.spark, pytest.mark.versions]

SMALL_FILES = {"hoodie.parquet.small.file.limit": "0", "hoodie.metadata.compact.max.delta.commits": "1"}
PLANS_INLINE = {
    MERGE_ON_READ: {"hoodie.compact.schedule.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"},
    COPY_ON_WRITE: {},
}
NEWEST_ONLY: dict[str, Any] = {"policy": "KEEP_LATEST_FILE_VERSIONS", "file_versions_retained": 1}


@pytest.mark.parametrize("kind", [MERGE_ON_READ, COPY_ON_WRITE])
@pytest.mark.parametrize("release", HUDI_BUNDLES)
def test_every_service_runs_and_the_table_stays_its_releases_own(
    orders_of: Callable[[str, str], ReleaseOrders], driver: Driver, release: str, kind: str
) -> None:
    """Each service succeeds and leaves every row as it was. Before and after, our observation equals the release's own
    description. The release writes and reads the table as before, and its properties are the same.
    """
    orders = orders_of(release, kind).writing(**SMALL_FILES)
    orders.write(keys=12)
    orders.write(keys=24)
    orders.writing(**PLANS_INLINE[kind]).write()
    properties = orders.properties()
    check_seen_as_its_release_sees_it(orders)

    if kind == MERGE_ON_READ:
        compact(driver, orders)
    serve(driver, orders, Service.CLUSTERING, untouched_for="0s")
    serve(driver, orders, Service.CLEAN, **NEWEST_ONLY)
    leave_a_dead_write(orders)
    serve(driver, orders, Service.ROLLBACK)
    serve(driver, orders, Service.ARCHIVE, keep_min_commits=2, keep_max_commits=3)
    let_expire(orders, "p0")
    serve(driver, orders, Service.TTL, days_retain=7)

    check_seen_as_its_release_sees_it(orders)
    assert orders.properties() == properties
    orders.write()
    assert orders.read_by_their_release() == orders.found() == orders.expected
    check_seen_as_its_release_sees_it(orders)
    assert orders.properties() == properties


def compact(driver: Driver, orders: ReleaseOrders) -> None:
    """Execute the plan that the release's writer has made, a log compaction, and a compaction that Lakewarden plans."""
    [planned] = orders.view().timeline.pending(Service.COMPACTION)
    assert planned.author is None
    serve(driver, orders, Service.COMPACTION, instant=planned.time)
    orders.write()
    orders.write()
    serve(driver, orders, Service.LOG_COMPACTION, log_blocks_threshold=2)
    orders.write()
    serve(driver, orders, Service.COMPACTION)


def serve(
    driver: Driver, orders: ReleaseOrders, service: Service, *, instant: str | None = None, **options: Any
) -> None:
    """Execute a service, and check the rows with a reader that is not the code under test."""
    outcome = driver.carry_out(orders, service, instant=instant, **options)
    assert isinstance(outcome, Succeeded), f"{service}: {outcome}"
    assert orders.found() == orders.expected, service


def check_seen_as_its_release_sees_it(orders: ReleaseOrders) -> None:
    """Compare every instant, and on merge-on-read the pending plans and the backlog."""
    view, says = orders.view(), orders.says()
    assert (view.faults, view.blockers) == ((), ())
    assert instants(view.timeline) == says["instants"]
    if orders.kind == MERGE_ON_READ:
        assert pending_compactions(view.timeline) == says["pending_compactions"]
        assert view.backlogs[Service.COMPACTION].commits == says["delta_commits_since_compaction"]


def leave_a_dead_write(orders: ReleaseOrders) -> None:
    """Leave a write in flight. Its writer has been silent for an hour."""
    view = orders.view()
    home = orders.path / ".hoodie"
    timeline = home / "timeline" if view.version != "6" else home
    action = "deltacommit" if orders.kind == MERGE_ON_READ else "commit"
    instant = time.strftime("%Y%m%d%H%M%S000", time.gmtime())
    (timeline / f"{instant}.{action}.requested").touch()
    (timeline / (f"{instant}.inflight" if action == "commit" else f"{instant}.{action}.inflight")).touch()
    heartbeat = home / ".heartbeat" / instant
    heartbeat.touch()
    _age(heartbeat, timedelta(hours=1))


def let_expire(orders: ReleaseOrders, partition: str) -> None:
    """Make a partition old enough to be deleted. Its orders, every third one, are expected to go."""
    for file in (orders.path / partition).iterdir():
        _age(file, timedelta(days=8))
    for key in [key for key in orders.expected if int(key[1:]) % 3 == int(partition[1:])]:
        del orders.expected[key]


def _age(file: os.PathLike[str], by: timedelta) -> None:
    then = time.time() - by.total_seconds()
    os.utime(file, (then, then))
