"""What the README tells a newcomer to write is what the daemon reads."""

from __future__ import annotations

import re
from pathlib import Path

from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions, ZookeeperLock
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode
from lakewarden.service.config.loading import load

README = Path(__file__).parents[3] / "README.md"


def test_the_five_lines_of_the_readme_connect_a_table(tmp_path: Path) -> None:
    """They are five, they load, and they name a table that is served under its writers' lock."""
    lines, _ = re.findall(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(lines.splitlines()) == 5

    (tmp_path / "lakewarden.yaml").write_text(lines)
    (table,) = load(tmp_path / "lakewarden.yaml").tables

    assert table.mode is Mode.ACT
    assert set(table.policies) == {Service.COMPACTION, Service.CLEAN}
    assert isinstance(table.options, HudiTableOptions)
    assert isinstance(table.options.lock, ZookeeperLock)


def test_the_writer_options_of_the_readme_name_the_same_lock(tmp_path: Path) -> None:
    """A writer that pastes them and a daemon that reads the five lines exclude each other."""
    text = README.read_text()
    lines, _ = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    [properties] = re.findall(r"```properties\n(.*?)```", text, re.DOTALL)
    options = dict(line.split("=", 1) for line in properties.splitlines() if not line.startswith("#"))
    (tmp_path / "lakewarden.yaml").write_text(lines)
    (table,) = load(tmp_path / "lakewarden.yaml").tables
    lock = table.options.lock

    assert options["hoodie.write.lock.provider"].endswith(".ZookeeperBasedLockProvider")
    assert options["hoodie.write.lock.zookeeper.url"] == lock.url
    assert options["hoodie.write.lock.zookeeper.base_path"] == lock.base_path
    assert options["hoodie.write.lock.zookeeper.lock_key"] == lock.lock_key


def test_the_iceberg_table_of_the_readme_is_found_in_its_catalog(tmp_path: Path) -> None:
    """The lines load as they stand."""
    _, lines = re.findall(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL)
    (tmp_path / "lakewarden.yaml").write_text(lines)
    config = load(tmp_path / "lakewarden.yaml")
    (table,) = config.tables

    assert table.catalog == config.catalogs["lake"].settings
    assert set(table.policies) == {Service.COMPACTION, Service.CLEAN}
