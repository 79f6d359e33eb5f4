"""The settings of found Hudi tables hold for each of them, with its own path and its own lock."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.catalogs import HiveCatalog
from lakewarden.planners.formats.hudi.options.service_options import CatalogSyncOptions
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions, ZookeeperLock
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, TableId
from lakewarden.planners.storage import Storages
from lakewarden.service.config.layers.templates import legal_beginning, legal_id
from lakewarden.service.config.loading import load
from lakewarden.service.config.settings import TABLE_ID
from lakewarden.service.control.discovery import sources_of
from lakewarden.service.model.table_sources import FoundTables
from tests.unit.planners.formats.hudi.catalogs.test_paths import table

ZOOKEEPER = "lock: {provider: zookeeper, url: 'zk:2181', base_path: /locks, lock_key: '{namespace}/{table}'}"


def told(folder: Path, *entries: str, path: str = "**/hudi_*") -> FoundTables:
    """Return what the catalog's source reports of the patterns."""
    file = folder / "lakewarden.yaml"
    catalog = f"lake: {{format: hudi, type: paths, path: '{folder}/lake/{path}'}}"
    file.write_text(f"catalogs: {{{catalog}}}\ntables: [{', '.join(entries)}]\n")
    (source,) = sources_of(load(file).discover, Storages())
    return source.find()


def test_a_found_table_has_its_path_its_policies_and_its_own_lock(tmp_path: Path) -> None:
    """It is treated like a listed table. One lock key for all would block every writer of the lake."""
    table(tmp_path / "lake" / "sales" / "hudi_orders")
    found = told(
        tmp_path, f"{{match: 'catalog://lake/*', mode: plan, services: {{clean: }}, options: {{{ZOOKEEPER}}}}}"
    )

    (orders,) = found.tables
    assert (orders.id, orders.location) == ("lake.sales.hudi_orders", str(tmp_path / "lake" / "sales" / "hudi_orders"))
    assert (orders.mode, set(orders.policies), orders.catalog is None) == (Mode.PLAN, {Service.CLEAN}, False)
    assert isinstance(orders.options, HudiTableOptions)
    assert isinstance(orders.options.lock, ZookeeperLock)
    assert orders.options.lock.lock_key == "sales/hudi_orders"


def test_entries_share_the_tables_out_by_their_patterns(tmp_path: Path) -> None:
    """The first entry that fits counts, whichever is asked first. So no race decides which entry a table has."""
    for name in ("sales/hudi_orders", "sales/hudi_tmp", "web/hudi_clicks"):
        table(tmp_path / "lake" / name)
    sales = "{match: 'catalog://lake/sales.*', exclude: ['*_tmp'], mode: plan}"
    found = told(tmp_path, sales, "{match: 'catalog://lake/*k*'}", "{match: 'catalog://lake/sales.*', poll: 1m}")

    assert [(one.id, one.mode, one.poll.total_seconds()) for one in found.tables] == [
        ("lake.sales.hudi_orders", Mode.PLAN, 10),
        ("lake.sales.hudi_tmp", Mode.OBSERVE, 60),
        ("lake.web.hudi_clicks", Mode.OBSERVE, 10),
    ]


def test_a_table_that_cannot_be_looked_after_as_its_entry_says_is_refused_alone(tmp_path: Path) -> None:
    """Its lock cannot work at its place. If it were listed, the daemon would not start."""
    table(tmp_path / "lake" / "sales" / "hudi_orders")
    by_lock = told(tmp_path, "{match: 'catalog://lake/*', options: {lock: {provider: storage}}}")

    assert by_lock.tables == []
    assert "storage needs conditional writes" in by_lock.refused["sales.hudi_orders"]


def test_a_table_with_a_name_that_is_no_id_has_a_legal_one(tmp_path: Path) -> None:
    """It is served as any other. Its lock has the name that Hudi knows, and its id depends on the name alone."""
    table(tmp_path / "lake" / "sales" / "hudi_or ders")
    lock = "{provider: zookeeper, url: 'zk:2181', base_path: /hudi, lock_key: '{table}'}"
    (found,) = told(tmp_path, f"{{match: 'catalog://lake/*', options: {{lock: {lock}}}}}").tables

    assert found.id == "lake.sales.hudi_or_ders-e61ba5bf"
    assert isinstance(found.options, HudiTableOptions)
    assert isinstance(found.options.lock, ZookeeperLock)
    assert found.options.lock.lock_key == "hudi_or ders"


@given(above=st.text(min_size=1, max_size=400), name=st.text(min_size=1, max_size=300))
def test_a_namespace_that_is_not_listed_keeps_each_table_below_it(above: str, name: str) -> None:
    """Also if letters of its name are in no id, or if its name is too long for one."""
    id_ = legal_id(f"lake.{above}.{name}")
    assert re.fullmatch(TABLE_ID, id_)
    assert not FoundTables(unlisted={legal_beginning(f"lake.{above}"): "forbidden"}).tells_of(id_)


def test_what_cannot_be_told_is_named_by_the_ids_it_concerns(tmp_path: Path) -> None:
    """A table whose name is one letter longer is another one."""
    lake = tmp_path / "lake"
    table(lake / "sales" / "hudi_orders")
    (lake / "web").touch()
    found = FoundTables(unlisted={"lake.sales": "forbidden"})
    ids = ("lake.sales", "lake.sales.orders", "lake.sales2")

    assert [found.tells_of(TableId(id_)) for id_ in ids] == [False, False, True]
    assert FoundTables(unlisted={"lake": "too many"}).tells_of(TableId("lake.web.x")) is False
    assert told(tmp_path, "{match: 'catalog://lake/*'}").unlisted == {}


def test_a_hudi_table_is_listed_by_its_path(tmp_path: Path) -> None:
    """Its catalog says where tables are, not what they are. A name alone is refused at the start, with the remedy."""
    file = tmp_path / "lakewarden.yaml"
    catalog = f"lake: {{format: hudi, type: paths, path: '{tmp_path}/*'}}"
    file.write_text(
        f"catalogs: {{{catalog}}}\ntables: [{{id: a, format: hudi, path: 'catalog://lake/sales.orders'}}]\n"
    )

    with pytest.raises(PermanentError, match=r"tables\[0\].path: a hudi table is named by its path"):
        load(file)


def test_a_found_table_knows_what_it_is_called_in_its_catalog(tmp_path: Path) -> None:
    """An entry without a name in the metastore is refused if the table was not found in one. The table is not."""
    table(tmp_path / "lake" / "sales" / "hudi_orders")
    sync = "services: {catalog_sync: {options: {uri: 'thrift://hms:9083'}}}"
    (orders,) = told(tmp_path, f"{{match: 'catalog://lake/*', {sync}}}").tables

    options = orders.policies[Service.CATALOG_SYNC].options
    assert isinstance(options, CatalogSyncOptions)
    assert (options.uri, options.database, options.table) == ("thrift://hms:9083", "sales", "hudi_orders")
    with pytest.raises(PermanentError, match="set the table's place in its metastore: uri"):
        told(tmp_path, "{match: 'catalog://lake/*', services: {catalog_sync: }}")
    found = replace(orders, catalog=HiveCatalog(type="hive", uri="thrift://found:9083"))
    policy = replace(found.policies[Service.CATALOG_SYNC], options=CatalogSyncOptions(table="trips"))
    made = HUDI.as_found(replace(found, policies={Service.CATALOG_SYNC: policy}), "web.orders")
    options = made.policies[Service.CATALOG_SYNC].options
    assert (options.uri, options.database, options.table) == ("thrift://found:9083", "web", "trips")


def test_a_found_table_outside_of_the_roots_is_not_registered(tmp_path: Path) -> None:
    """A link in the lake may lead anywhere. The table is named, and the others are registered."""
    table(tmp_path / "lake" / "sales" / "hudi_orders")
    table(tmp_path / "elsewhere" / "hudi_clicks")
    (tmp_path / "lake" / "web").symlink_to(tmp_path / "elsewhere")
    file = tmp_path / "lakewarden.yaml"
    catalog = f"lake: {{format: hudi, type: paths, path: '{tmp_path}/lake/**/hudi_*'}}"
    file.write_text(f"roots: ['{tmp_path}/lake']\ncatalogs: {{{catalog}}}\ntables: [{{match: 'catalog://lake/*'}}]\n")
    config = load(file)
    (source,) = sources_of(config.discover, Storages(roots=config.roots))
    found = source.find()
    assert [one.id for one in found.tables] == ["lake.sales.hudi_orders"]
    told = [*found.refused.values(), *found.unlisted.values()]
    assert not told or all("outside of the roots" in reason for reason in told)
