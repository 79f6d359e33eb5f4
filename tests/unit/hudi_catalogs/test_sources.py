"""What a configuration says of found Hudi tables holds for each, with its own place and its own lock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.catalogs import HiveCatalog
from lakewarden.planners.formats.hudi.options.service_options import CatalogSyncOptions
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions, ZookeeperLock
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, TableId
from lakewarden.planners.storage import Storages
from lakewarden.service.config.loading import load
from lakewarden.service.control.sources import sources_of
from lakewarden.service.model.found import Found
from tests.unit.hudi_catalogs.test_paths import table

ZOOKEEPER = "lock: {provider: zookeeper, url: 'zk:2181', base_path: /locks, lock_key: '{namespace}/{table}'}"


def told(folder: Path, *entries: str, path: str = "**/hudi_*") -> Found:
    """Return what the catalog's source tells of the entries under `discover`."""
    file = folder / "lakewarden.yaml"
    catalog = f"lake: {{format: hudi, type: paths, path: '{folder}/lake/{path}'}}"
    file.write_text(f"catalogs: {{{catalog}}}\ndiscover: [{', '.join(entries)}]\n")
    (source,) = sources_of(load(file).discover, Storages())
    return source.find()


def test_a_found_table_has_its_path_its_policies_and_its_own_lock(tmp_path: Path) -> None:
    """As if it were listed: one lock key for all would hold up every writer of the lake."""
    table(tmp_path / "lake" / "sales" / "hudi_orders")
    found = told(tmp_path, f"{{catalog: lake, mode: plan, services: {{clean: }}, options: {{{ZOOKEEPER}}}}}")

    (orders,) = found.tables
    assert (orders.id, orders.location) == ("lake.sales.hudi_orders", str(tmp_path / "lake" / "sales" / "hudi_orders"))
    assert (orders.mode, set(orders.policies), orders.catalog is None) == (Mode.PLAN, {Service.CLEAN}, False)
    assert isinstance(orders.options, HudiTableOptions)
    assert isinstance(orders.options.lock, ZookeeperLock)
    assert orders.options.lock.lock_key == "sales/hudi_orders"


def test_entries_share_the_tables_out_by_their_patterns(tmp_path: Path) -> None:
    """The first that fits counts, whichever is asked first: what is meant for a few is not decided by a race."""
    for name in ("sales/hudi_orders", "sales/hudi_tmp", "web/hudi_clicks"):
        table(tmp_path / "lake" / name)
    sales = "{catalog: lake, tables: 'sales.*', exclude: ['*_tmp'], mode: plan}"
    found = told(tmp_path, sales, "{catalog: lake, tables: '*k*'}", "{catalog: lake, tables: 'sales.*', poll: 1m}")

    assert [(one.id, one.mode, one.poll.total_seconds()) for one in found.tables] == [
        ("lake.sales.hudi_orders", Mode.PLAN, 10),
        ("lake.sales.hudi_tmp", Mode.OBSERVE, 60),
        ("lake.web.hudi_clicks", Mode.OBSERVE, 10),
    ]


def test_a_table_that_cannot_be_looked_after_as_its_entry_says_is_refused_alone(tmp_path: Path) -> None:
    """By its name, or because its lock cannot be where it is; the daemon would not start if it were listed."""
    table(tmp_path / "lake" / "sales" / "hudi_orders")
    table(tmp_path / "lake" / "sales" / "hudi_or ders")
    by_name = told(tmp_path, "{catalog: lake}")
    by_lock = told(tmp_path, "{catalog: lake, options: {lock: {provider: storage}}}")

    assert [one.id for one in by_name.tables] == ["lake.sales.hudi_orders"]
    assert by_name.refused == {
        "sales.hudi_or ders": "its name cannot be a table's id: list it under tables, with an id"
    }
    assert by_lock.tables == []
    assert "storage needs conditional writes" in by_lock.refused["sales.hudi_orders"]


def test_what_cannot_be_told_is_named_by_the_ids_it_concerns(tmp_path: Path) -> None:
    """A table that is one letter longer is another one."""
    lake = tmp_path / "lake"
    table(lake / "sales" / "hudi_orders")
    (lake / "web").touch()
    found = Found(unlisted={"lake.sales": "forbidden"})
    ids = ("lake.sales", "lake.sales.orders", "lake.sales2")

    assert [found.tells_of(TableId(id_)) for id_ in ids] == [False, False, True]
    assert Found(unlisted={"lake": "too many"}).tells_of(TableId("lake.web.x")) is False
    assert told(tmp_path, "{catalog: lake}").unlisted == {}


def test_a_hudi_table_is_listed_by_its_path(tmp_path: Path) -> None:
    """Its catalog is asked where tables are, not what they are: a name alone is refused at the start, with the way."""
    file = tmp_path / "lakewarden.yaml"
    catalog = f"lake: {{format: hudi, type: paths, path: '{tmp_path}/*'}}"
    file.write_text(
        f"catalogs: {{{catalog}}}\ntables: [{{id: a, format: hudi, path: 'catalog://lake/sales.orders'}}]\n"
    )

    with pytest.raises(PermanentError, match=r"tables\[0\].path: a hudi table is named by its path"):
        load(file)


def test_a_found_table_knows_what_it_is_called_in_its_catalog(tmp_path: Path) -> None:
    """A metastore that is to list no deleted partition is named, where the table was not found in one, and no table."""
    table(tmp_path / "lake" / "sales" / "hudi_orders")
    sync = "services: {catalog_sync: {options: {uri: 'thrift://hms:9083'}}}"
    (orders,) = told(tmp_path, f"{{catalog: lake, {sync}}}").tables

    options = orders.policies[Service.CATALOG_SYNC].options
    assert isinstance(options, CatalogSyncOptions)
    assert (options.uri, options.database, options.table) == ("thrift://hms:9083", "sales", "hudi_orders")
    with pytest.raises(PermanentError, match="what the table is called in which metastore: uri"):
        told(tmp_path, "{catalog: lake, services: {catalog_sync: }}")
    found = replace(orders, catalog=HiveCatalog(type="hive", uri="thrift://found:9083"))
    policy = replace(found.policies[Service.CATALOG_SYNC], options=CatalogSyncOptions(table="trips"))
    made = HUDI.as_found(replace(found, policies={Service.CATALOG_SYNC: policy}), "web.orders")
    options = made.policies[Service.CATALOG_SYNC].options
    assert (options.uri, options.database, options.table) == ("thrift://found:9083", "web", "trips")
