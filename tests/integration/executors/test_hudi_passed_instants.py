"""What stays on the timeline while an archive goes past it: Hudi then plans without the log files of archived commits.

Readers still show those rows. A compaction would lose them for good (run with Hudi 1.2.0's own services).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.executors.contract import Failed, FailureKind, NothingToDo, Succeeded
from lakewarden.executors.programs.hudi.archive import SETTINGS
from lakewarden.executors.programs.hudi.client.write_client import HudiClient
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import Service

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

KEEP: dict[str, Any] = {"keep_min_commits": 2, "keep_max_commits": 3}
ONLY_LEFT: dict[str, Any] = {"keep_min_commits": 5, "keep_max_commits": 9}
OFTEN = {"hoodie.metadata.compact.max.delta.commits": "1"}


@pytest.fixture(scope="module")
def written(warm_driver: Driver, written_orders: Orders, tmp_path_factory: pytest.TempPathFactory) -> Orders:
    """Write a table whose clean waits for its approval, and to which five more commits were made since."""
    path = tmp_path_factory.mktemp("waiting") / "orders"
    shutil.copytree(written_orders.path, path)
    table = dataclasses.replace(written_orders, path=path, expected=dict(written_orders.expected), conf=OFTEN)
    assert isinstance(warm_driver.carry_out(table, Service.COMPACTION), Succeeded)
    table.write(keys=9)
    assert isinstance(warm_driver.carry_out(table, Service.COMPACTION), Succeeded)
    table.write(keys=9)
    table.leave_clean(warm_driver, policy="KEEP_LATEST_FILE_VERSIONS", file_versions_retained=1)
    for keys in (8, 7, 6, 5, 4):
        table.write(keys=keys)
    shutil.copytree(path, path.with_name("copy"))
    return table


@pytest.fixture
def copied(written: Orders) -> Orders:
    """Return the copy of the table as it was. Its clean names files of the original."""
    return dataclasses.replace(written, path=written.path.with_name("copy"), expected=dict(written.expected))


@contextlib.contextmanager
def _client(orders: Orders, service: Mapping[str, str]) -> Iterator[HudiClient]:
    options = HudiTableOptions.model_validate({"lock": dict(orders.lock)})
    with contextlib.closing(
        HudiClient(orders.spark, str(orders.path), options, service, indexes=orders.indexes())
    ) as client:
        yield client


def _archive_as_a_writer(orders: Orders, *, keep: int) -> None:
    """Let Hudi's own archive leave so many commits, as a writer does after its commit."""
    with _client(orders, SETTINGS) as client, client.locked():
        assert client.archive(keep=keep)


@pytest.mark.core
def test_an_archive_stops_at_a_clean_that_waits(driver: Driver, copied: Orders) -> None:
    """So the compaction that follows sees the log files of every commit."""
    [clean] = copied.plans_of(Service.CLEAN)
    first = copied.timeline("*.deltacommit")[0]
    assert isinstance(driver.carry_out(copied, Service.ARCHIVE, **KEEP), Succeeded)
    assert first not in copied.timeline("*.deltacommit")
    held = driver.carry_out(copied, Service.ARCHIVE, **KEEP)
    assert isinstance(held, NothingToDo)
    assert f"clean {clean} is pending, and no archive goes past it" in held.reason

    assert isinstance(driver.carry_out(copied, Service.COMPACTION), Succeeded)
    assert copied.found() == copied.expected


@pytest.mark.core
def test_no_rewrite_loses_a_row_that_a_writers_archive_has_hidden_from_its_plan(
    driver: Driver, written: Orders, worker_faults: Path
) -> None:
    """Hudi's own archive goes past a pending clean. The way out that the failure names leads to a whole plan, also if
    the archive ends before it deletes a file of the clean from the timeline, and before it deletes the last one.
    """
    [clean] = written.plans_of(Service.CLEAN)
    _archive_as_a_writer(written, keep=2)

    rewrites: dict[Service, dict[str, Any]] = {
        Service.LOG_COMPACTION: {"log_blocks_threshold": 2},
        Service.COMPACTION: {},
    }
    for service, options in rewrites.items():
        refused = driver.carry_out(written, service, **options)

        assert isinstance(refused, Failed)
        assert refused.kind is FailureKind.PERMANENT
        assert f"an archive has gone past clean {clean}" in refused.reason
        assert not written.plans_of(service)
    assert written.found() == written.expected

    assert isinstance(driver.carry_out(written, Service.CLEAN), Succeeded)
    assert isinstance(driver.carry_out(written, Service.COMPACTION), Failed), "the completed clean is still there"
    faults = [{"point": "archived", "act": "fail", "service": "archive", "hit": hit} for hit in (1, 3)]
    worker_faults.write_text(json.dumps(faults))
    for files in (3, 1):
        assert isinstance(driver.carry_out(written, Service.ARCHIVE, **ONLY_LEFT), Failed)
        assert len(written.timeline(f"{clean}*")) == files
        assert isinstance(driver.carry_out(written, Service.COMPACTION), Failed)
        assert written.found() == written.expected
    worker_faults.unlink()
    assert isinstance(driver.carry_out(written, Service.ARCHIVE, **ONLY_LEFT), Succeeded)
    assert not written.timeline(f"{clean}*")
    assert isinstance(driver.carry_out(written, Service.COMPACTION), Succeeded)
    written.write(keys=3)
    assert written.found() == written.expected


def test_an_index_that_was_built_stops_no_archive_and_hides_no_row(driver: Driver, orders: Orders) -> None:
    """Hudi leaves the instant on the timeline for good. Our archive moves it with the commits around it."""
    bloom = {"hoodie.metadata.index.bloom.filter.enable": "true"}
    orders.conf = {**OFTEN, **bloom}
    with _client(orders, bloom) as client:
        kinds = orders.spark._jvm.org.apache.hudi.metadata.MetadataPartitionType
        indexing = client.java.scheduleIndexing(client.java_list([kinds.BLOOM_FILTERS]), client.java_list([]))
        client.java.index(indexing.get())
    for keys in (9, 8, 7, 6, 5, 4):
        orders.write(keys=keys)
    assert orders.timeline("*.indexing")
    before = len(orders.timeline("*.deltacommit"))

    outcome = driver.carry_out(orders, Service.ARCHIVE, **KEEP)

    assert isinstance(outcome, Succeeded), outcome
    assert outcome.figures["instants_archived"] == before - 2 + 1
    assert not orders.timeline("*indexing*")
    assert isinstance(driver.carry_out(orders, Service.COMPACTION), Succeeded)
    orders.write(keys=2)
    assert orders.found() == orders.expected
