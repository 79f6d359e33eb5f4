"""The examples in `deploy` are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.writers import FILES, FLINK_FILES, text, text_of_sink
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.paimon.catalogs.settings import keeps_commits_apart
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode
from lakewarden.planners.ports import WriterEngine
from lakewarden.service.config.loading import load

DEPLOY = Path(__file__).parents[3] / "deploy"
FLINK_CONFIG = DEPLOY / "config" / "flink.yaml"
CONFIGS = sorted(set((DEPLOY / "config").glob("*.yaml")) - {FLINK_CONFIG})


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_every_configuration_registers_a_table_and_touches_nothing_yet(config: Path) -> None:
    """A user who copies one begins with observing. The services are prepared, and the lock that they need is named."""
    (table,) = load(config).tables

    assert table.mode is Mode.OBSERVE
    assert set(table.policies) == {Service.COMPACTION, Service.CLEAN}
    assert table.options.lock is not None


def test_there_is_a_configuration_for_each_kind_of_store() -> None:
    """The kinds are local disks, S3, GCS and HDFS."""
    schemes = {load(config).tables[0].location.partition("://")[0].split("/")[0] for config in CONFIGS}

    assert schemes == {"", "s3", "gs", "hdfs"}


def test_there_is_a_configuration_for_what_flink_jobs_leave() -> None:
    """A Paimon table under the lock of its catalog, and a directory with readers by a metastore. Nothing acts yet."""
    tables = {table.format: table for table in load(FLINK_CONFIG).tables}
    assert set(tables) == {"paimon", "directory"}
    assert {table.mode for table in tables.values()} == {Mode.OBSERVE}
    assert keeps_commits_apart(tables["paimon"].catalog, "s3://lake/sales.db/refunds")
    assert all({Service.COMPACTION, Service.PARTITION_COMMIT} <= set(table.policies) for table in tables.values())


@pytest.mark.parametrize("table", FLINK_FILES)
def test_the_options_of_flinks_sinks_are_those_that_the_daemon_asks_for(table: str) -> None:
    """Of Paimon's sink and of the filesystem sink."""
    assert FLINK_FILES[table].read_text() == text_of_sink(table)


@pytest.mark.parametrize("engine", HUDI.writer_engines, ids=str)
def test_the_writers_options_are_those_that_the_daemon_asks_for(engine: WriterEngine) -> None:
    """`python -m deploy.writers` writes them. If an option changes, users who copied it must be told."""
    assert FILES[engine].read_text() == text(engine)
