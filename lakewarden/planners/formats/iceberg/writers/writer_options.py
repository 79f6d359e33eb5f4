"""The options that let the commits of a writer and of Lakewarden go on beside each other on an Iceberg table.

Iceberg's atomic commits alone keep the rows right. The options only spare writers failures and retries. The keys are
those of the table's properties (`TableProperties`), of the catalog (`CatalogProperties`) and, for Flink, of the sink
(`FlinkWriteOptions` of 1.11).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakewarden.planners.formats.iceberg.catalogs.settings import RestCatalog
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import FLINK, SPARK, WriterEngine, WriterOption
from lakewarden.planners.storage.locations import is_in_catalog, named_in_catalog

_Group = tuple[str, Mapping[str, str]]

_ROW_LEVEL_COMMANDS = ("merge", "update", "delete")

_SWITCHES_OF_FLINKS_SINK = {
    Service.COMPACTION: ("flink-maintenance.rewrite.enabled", "compaction-enabled"),
    Service.CLEAN: ("flink-maintenance.expire-snapshots.enabled",),
    Service.ORPHANS: ("flink-maintenance.delete-orphan-files.enabled",),
}
"""The table services that Flink's sink runs by itself if its options say so. The key of compaction had another name
before."""


ENGINES = (SPARK, FLINK)


def writer_options(table: Table, *, engine: WriterEngine, hook_url: str) -> tuple[WriterOption, ...]:
    """Return the options. Options with the same reason follow each other."""
    return tuple(
        WriterOption(key=key, value=value, why=why, optional=why == _WEAKER)
        for why, keys in _groups(table, engine, hook_url)
        for key, value in keys.items()
    )


def _groups(table: Table, engine: WriterEngine, hook_url: str) -> Iterator[_Group]:
    yield (
        "a commit that another was faster than is tried again, ours among them; four times would be the default",
        {"commit.retry.num-retries": "10"},
    )
    yield from _for_flink(table) if engine == FLINK else _for_spark()
    yield (
        "each commit deletes its oldest metadata file, which no expiry of snapshots does",
        {
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "100",  # the default, if old ones are deleted at all
        },
    )
    if isinstance(table.catalog, RestCatalog) and is_in_catalog(table.location):
        yield _reports(table, engine, hook_url)


_WEAKER = (
    "RISK: with these, a MERGE, UPDATE or DELETE misses rows that others append while it runs. By default "
    "(serializable) such a command fails instead. Remove the # for a command that may miss them"
)


def _for_spark() -> Iterator[_Group]:
    yield (
        _WEAKER,
        {f"write.{command}.isolation-level": "snapshot" for command in _ROW_LEVEL_COMMANDS},
    )


def _for_flink(table: Table) -> Iterator[_Group]:
    for service, keys in _SWITCHES_OF_FLINKS_SINK.items():
        if service in table.policies:
            yield f"{service} is Lakewarden's", dict.fromkeys(keys, "false")
    if Service.COMPACTION in table.policies:
        yield (
            "a partition is written by one task; with none, each checkpoint leaves a file of every task to compaction",
            {"write.distribution-mode": "hash"},
        )


def _reports(table: Table, engine: WriterEngine, hook_url: str) -> _Group:
    catalog, _ = named_in_catalog(table.location)
    key = "rest-metrics-reporting-enabled"
    return (
        f"a setting of the catalog: what writers report to it an ingress mirrors to {hook_url}/v1/.../metrics"
        f"?catalog={catalog}",
        {f"spark.sql.catalog.{catalog}.{key}" if engine == SPARK else key: "true"},
    )
