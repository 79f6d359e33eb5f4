"""Tables that are named by a catalog, and those that are found in one."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.formats.iceberg.catalogs.settings import HadoopCatalog
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode
from lakewarden.service.config.loading import Config, load

LAKE = "catalogs: {lake: {format: iceberg, type: hadoop, warehouse: /data/lake, timeout: 3s}}"


def _load(folder: Path, *lines: str) -> Config:
    file = folder / "lakewarden.yaml"
    file.write_text("\n".join(lines))
    return load(file)


def _problems(folder: Path, *lines: str) -> list[str]:
    with pytest.raises(PermanentError) as refused:
        _load(folder, *lines)
    start = re.compile(rf"^{re.escape(str(folder / 'lakewarden.yaml'))}:\d+: ")
    return [start.sub("", line) for line in str(refused.value).splitlines()]


def test_a_table_knows_the_catalog_that_names_it(tmp_path: Path) -> None:
    """Its location is its name, by which it is known for good; a path beside it needs no catalog."""
    tables = (
        "tables: [{id: orders, format: iceberg, path: 'catalog://lake/sales.orders'},"
        " {id: returns, format: iceberg, path: /data/returns}]"
    )
    orders, returns = _load(tmp_path, LAKE, tables).tables

    assert orders.location == "catalog://lake/sales.orders"
    assert orders.catalog == HadoopCatalog(type="hadoop", warehouse="/data/lake", timeout=timedelta(seconds=3))
    assert returns.catalog is None


def test_what_is_found_is_looked_after_as_its_entry_says(tmp_path: Path) -> None:
    """Everything that a table may say holds for all of them; each has its own name and place."""
    (source,) = _load(
        tmp_path, LAKE, "tables: [{match: 'catalog://lake/sales.*', mode: plan, poll: 1m, services: {compaction: }}]"
    ).discover
    found = source.table("sales.eu.orders")

    assert (found.id, found.location) == ("lake.sales.eu.orders", "catalog://lake/sales.eu.orders")
    assert (found.mode, found.poll, set(found.policies)) == (Mode.PLAN, timedelta(minutes=1), {Service.COMPACTION})
    assert found.catalog == source.catalog.settings
    assert (source.every, source.pattern.exclude) == (timedelta(minutes=10), ())


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("catalog://lak/sales.orders", "there is no catalog 'lak' under catalogs; there is lake"),
        ("catalog://lake/orders", "'catalog://lake/orders' needs the form catalog://name/namespace.table"),
    ],
)
def test_a_table_of_no_catalog_is_refused(tmp_path: Path, path: str, problem: str) -> None:
    """A name that leads nowhere is found at the start, with what there is instead."""
    assert _problems(tmp_path, LAKE, f"tables: [{{id: a, format: iceberg, path: '{path}'}}]") == [
        f"tables[0].path: {problem}"
    ]


def test_the_tables_of_a_wrong_catalog_are_checked_all_the_same(tmp_path: Path) -> None:
    """The catalog's entry says their format. No problem of theirs is invented, and none is hidden."""
    catalog = "catalogs: {lake: {format: iceberg, type: glue, warehouse: /x}}"
    entry = "path: 'catalog://lake/sales.orders', services: {clean: {max_snapshot_agee: 1d}}"
    wrong, typo = _problems(tmp_path, catalog, f"tables: [{{id: a, {entry}}}]")

    assert wrong.startswith("catalogs.lake: type: must be hadoop, jdbc")
    assert typo.startswith("tables[0].services.clean.max_snapshot_agee: ")


def test_a_table_without_a_format_in_a_catalog_that_is_not_there_lacks_the_catalog(tmp_path: Path) -> None:
    """Its format would be the catalog's."""
    assert _problems(tmp_path, LAKE, "tables: [{id: a, path: 'catalog://lak/sales.orders'}]") == [
        "tables[0].path: there is no catalog 'lak' under catalogs; there is lake"
    ]


def test_a_catalog_of_another_format_is_refused(tmp_path: Path) -> None:
    """Hudi tables are found by their path, whatever a catalog of Iceberg's may say."""
    tables = "tables: [{id: a, format: hudi, path: 'catalog://lake/sales.orders'}]"

    assert _problems(tmp_path, LAKE, tables) == [
        "tables[0].path: the catalog 'lake' is one of iceberg tables, not of hudi tables"
    ]


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("lake: {format: iceburg}", "lake.format: 'iceburg' is not a format: use one of hudi, iceberg"),
        ("lake: {format: hudi}", "lake: needs a key type"),
        ("lake: {format: hudi, type: paths, path: 'lake/*'}", "lake.path: 'lake/*' must begin with a place"),
        ("lake: {type: hadoop}", "lake.format: is missing"),
        ("lake: {format: iceberg, uri: /x}", "lake: needs a key type"),
        ("lake: {format: iceberg, type: glue}", "lake: type: must be hadoop, jdbc"),
        (
            "lake: {format: iceberg, type: hadoop, warehouse: /x, timeuot: 3s}",
            "lake.timeuot: unknown key",
        ),
        (
            "lake: {format: iceberg, type: hadoop, warehouse: /x, timeout: 3}",
            "lake.timeout: 3 is not a duration: write",
        ),
        ("lake: {format: iceberg, type: jdbc, uri: 'postgresql://h/d', warehouse: /x}", "lake.uri: 'postgresql://h/d'"),
        (
            "lake: {format: iceberg, type: rest, uri: 'http://h', token: hunter2}",
            "lake.token: a secret must not be in the configuration",
        ),
        ("'a b': {format: iceberg, type: hadoop, warehouse: /x}", "a b: 'a b' does not have the form"),
    ],
)
def test_a_wrong_catalog_is_named_by_the_path_of_its_key(tmp_path: Path, written: str, problem: str) -> None:
    """The format's own settings are checked like ours, and a secret is not repeated."""
    found = _problems(tmp_path, f"catalogs: {{{written}}}")

    assert found[0].startswith(f"catalogs.{problem}")
    assert "hunter2" not in "".join(found)


def test_the_name_of_sparks_own_catalog_is_refused(tmp_path: Path) -> None:
    """A worker would take Spark's session catalog away from it."""
    (found,) = _problems(tmp_path, "catalogs: {spark_catalog: {format: iceberg, type: hadoop, warehouse: /x}}")

    assert found == "catalogs: spark_catalog is Spark's own: give the catalog another name"


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("match: 'catalog://lak/*'", "match: there is no catalog 'lak' under catalogs; there is lake"),
        ("match: 'catalog://lake/*', services: {ttl: }", "services.ttl: ttl is not supported on iceberg"),
        ("match: 'catalog://lake/*', spark: big", "spark: there is no spark profile 'big'; there is default"),
        ("match: 'catalog://lake/*', every: 10", "every: 10 is not a duration: write a"),
    ],
)
def test_wrong_care_for_what_is_found_is_refused_at_the_start(tmp_path: Path, written: str, problem: str) -> None:
    """It would be wrong for every table that is going to be found: nobody would see it before."""
    (found,) = _problems(tmp_path, LAKE, f"tables: [{{{written}}}]")

    assert found.startswith(f"tables[0].{problem}")
