"""What lies in `deploy` to be copied is true."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.writers import FILES, text
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode
from lakewarden.planners.ports import WriterEngine
from lakewarden.service.config.loading import load

DEPLOY = Path(__file__).parents[3] / "deploy"
CONFIGS = sorted((DEPLOY / "config").glob("*.yaml"))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_every_configuration_registers_a_table_and_touches_nothing_yet(config: Path) -> None:
    """Whoever copies one begins with looking, has the services ready, and names the lock that they need."""
    (table,) = load(config).tables

    assert table.mode is Mode.OBSERVE
    assert set(table.policies) == {Service.COMPACTION, Service.CLEAN}
    assert table.options.lock is not None


def test_there_is_a_configuration_for_each_kind_of_store() -> None:
    """Local disks, S3, GCS and HDFS."""
    schemes = {load(config).tables[0].location.partition("://")[0].split("/")[0] for config in CONFIGS}

    assert schemes == {"", "s3", "gs", "hdfs"}


@pytest.mark.parametrize("engine", list(WriterEngine))
def test_the_writers_options_are_those_that_the_daemon_asks_for(engine: WriterEngine) -> None:
    """`python -m deploy.writers` writes them; an option that changes must be told to those who copied it."""
    assert FILES[engine].read_text() == text(engine)
