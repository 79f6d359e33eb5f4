"""What can be played: every piece is whole, and its configuration is one that the daemon takes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from lakewarden import cli
from lakewarden.demo.environment import Environment
from lakewarden.demo.format_demo import FormatDemo
from lakewarden.demo.formats.hudi.demo import table_entry
from lakewarden.demo.interruption import Interruption
from lakewarden.demo.registry import REPERTOIRE, demo_of
from lakewarden.demo.run import DemoRun
from lakewarden.demo.snapshot import DemoState
from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.config.loading import load
from live.iceberg.piece import CatalogPiece


class NoScreen:
    def show(self, scene: DemoState) -> None:
        """Nobody watches."""


def entry(piece: FormatDemo, directory: Path) -> object:
    """Return the table's entry; ZooKeeper, which Hudi needs, is left out."""
    stage = Environment(directory, piece)
    if piece.format == "hudi":
        return table_entry(stage.table, zookeeper="127.0.0.1:2181")
    return piece.prepare(stage, DemoRun(stage, NoScreen(), Interruption()))


def pieces() -> list[FormatDemo]:
    return [*map(demo_of, REPERTOIRE), CatalogPiece()]


@pytest.mark.parametrize("piece", pieces(), ids=lambda piece: type(piece).__name__)
def test_the_table_is_one_that_the_daemon_takes(piece: FormatDemo, tmp_path: Path) -> None:
    """With its services and its options, before there is a table."""
    table = entry(piece, tmp_path)
    assert isinstance(table, dict)
    whole = {
        **piece.settings(tmp_path),
        "spark": {"default": {"formats": [piece.format]}},
        "tables": [{"id": "orders", "mode": "act", **table, "services": dict(piece.services)}],
    }
    (tmp_path / "lakewarden.yaml").write_text(yaml.safe_dump(whole))

    [loaded] = load(tmp_path / "lakewarden.yaml").tables

    assert loaded.format == piece.format


@pytest.mark.parametrize("piece", pieces(), ids=lambda piece: type(piece).__name__)
def test_what_is_promised_is_asked_for_and_what_is_merged_is_counted(piece: FormatDemo, tmp_path: Path) -> None:
    """A service without a policy could not succeed, and a compaction is seen by what it brings to nothing."""
    assert set(piece.promised) <= piece.services.keys()
    assert piece.to_merge in piece.counted
    assert piece.count_stored(tmp_path).keys() <= piece.counted.keys()


def test_a_piece_whose_reader_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's first line is its last."""
    monkeypatch.setitem(REPERTOIRE, "iceberg", "lakewarden_has_no_such_module")

    with pytest.raises(PermanentError, match=r"install lakewarden\[iceberg\]"):
        demo_of("iceberg")


def test_the_command_line_knows_every_piece(capsys: pytest.CaptureFixture[str]) -> None:
    """It names them without importing one."""
    with pytest.raises(SystemExit):
        cli.main(["demo", "--format", "none"])

    told = capsys.readouterr().err
    assert all(name in told for name in REPERTOIRE)
