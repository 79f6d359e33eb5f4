"""What the README and the tutorials tell a newcomer to write is what the daemon reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions, ZookeeperLock
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode
from lakewarden.service.config.loading import load

ROOT = Path(__file__).parents[4]
README = ROOT / "README.md"
HUDI = ROOT / "docs" / "tutorial_hudi.md"
ICEBERG = ROOT / "docs" / "tutorial_iceberg.md"


def _yaml(page: Path) -> str:
    [lines] = re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return str(lines)


@pytest.mark.parametrize("page", [README, HUDI], ids=["readme", "tutorial"])
def test_the_five_lines_connect_a_table_and_change_nothing(tmp_path: Path, page: Path) -> None:
    """They are five, they load, and they name a table under its writers' lock, in a mode that runs nothing."""
    lines = _yaml(page)
    assert len(lines.splitlines()) == 5

    (tmp_path / "lakewarden.yaml").write_text(lines)
    (table,) = load(tmp_path / "lakewarden.yaml").tables

    assert table.mode is Mode.PLAN
    assert set(table.policies) == {Service.COMPACTION, Service.CLEAN}
    assert isinstance(table.options, HudiTableOptions)
    assert isinstance(table.options.lock, ZookeeperLock)


def test_the_writer_options_of_the_tutorial_name_the_same_lock(tmp_path: Path) -> None:
    """A writer that pastes them and a daemon that reads the five lines exclude each other."""
    [properties] = re.findall(r"```properties\n(.*?)```", HUDI.read_text(encoding="utf-8"), re.DOTALL)
    options = dict(line.split("=", 1) for line in properties.splitlines() if not line.startswith("#"))
    (tmp_path / "lakewarden.yaml").write_text(_yaml(HUDI))
    (table,) = load(tmp_path / "lakewarden.yaml").tables
    lock = table.options.lock

    assert options["hoodie.write.lock.provider"].endswith(".ZookeeperBasedLockProvider")
    assert options["hoodie.write.lock.zookeeper.url"] == lock.url
    assert options["hoodie.write.lock.zookeeper.base_path"] == lock.base_path
    assert options["hoodie.write.lock.zookeeper.lock_key"] == lock.lock_key


def test_the_iceberg_table_of_the_tutorial_is_found_in_its_catalog(tmp_path: Path) -> None:
    """The lines load as they stand."""
    (tmp_path / "lakewarden.yaml").write_text(_yaml(ICEBERG))
    config = load(tmp_path / "lakewarden.yaml")
    (table,) = config.tables

    assert table.catalog == config.catalogs["lake"].settings
    assert set(table.policies) == {Service.COMPACTION, Service.CLEAN}
    assert table.mode is Mode.PLAN


def test_the_readme_is_short() -> None:
    """A newcomer reads it to its end. Everything else has a page of its own."""
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 110
