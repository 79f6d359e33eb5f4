"""The demo of every format is complete, and the daemon accepts its configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from lakewarden import cli
from lakewarden.demo.format_demo import FormatDemo
from lakewarden.demo.registry import DEMOS, demo_of
from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.config.loading import load
from live.iceberg.catalog_demo import CatalogDemo


def pieces() -> list[FormatDemo]:
    return [*map(demo_of, DEMOS), CatalogDemo()]


@pytest.mark.parametrize("format_demo", pieces(), ids=lambda format_demo: type(format_demo).__name__)
def test_the_table_is_one_that_the_daemon_takes(format_demo: FormatDemo, tmp_path: Path) -> None:
    """The entry has its services and its options, before there is a table."""
    table = format_demo.entry(format_demo.folder(tmp_path), lambda: "127.0.0.1:2181")
    whole = {
        **format_demo.settings(tmp_path),
        "spark": {"default": {"formats": [format_demo.format]}},
        "tables": [{"id": "orders", "mode": "act", **table, "services": dict(format_demo.services)}],
    }
    (tmp_path / "lakewarden.yaml").write_text(yaml.safe_dump(whole))

    [loaded] = load(tmp_path / "lakewarden.yaml").tables

    assert loaded.format == format_demo.format


@pytest.mark.parametrize("format_demo", pieces(), ids=lambda format_demo: type(format_demo).__name__)
def test_what_is_promised_is_asked_for_and_what_is_merged_is_counted(format_demo: FormatDemo, tmp_path: Path) -> None:
    """A service without a policy could not succeed. A compaction is shown by the count that it brings to zero."""
    assert set(format_demo.promised) <= format_demo.services.keys()
    assert format_demo.to_merge in format_demo.counted
    assert format_demo.count_stored(tmp_path).keys() <= format_demo.counted.keys()


def test_a_demo_without_its_reader_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is the only line that the command prints."""
    monkeypatch.setitem(DEMOS, "iceberg", "lakewarden_has_no_such_module")

    with pytest.raises(PermanentError, match=r"pip install '\.\[server,demo\]'"):
        demo_of("iceberg")


def test_the_command_line_knows_every_demo(capsys: pytest.CaptureFixture[str]) -> None:
    """It names them without importing one."""
    assert cli.main(["demo", "--format", "none"]) == 2

    told = capsys.readouterr().err
    assert all(name in told for name in DEMOS)
