"""`lakewarden writer-options`: what a table's writers set, ready to paste."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from lakewarden.cli import main
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.ports import WriterEngine
from lakewarden.service.config.loading import load

NOBODY = "http://127.0.0.1:9"
HOOK = "https://lakewarden.example/v1/hooks/hudi"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return a configuration of one table, with an address that writers are told."""
    file = tmp_path / "lakewarden.yaml"
    file.write_text(
        """
        api: {public_url: https://lakewarden.example}
        tables:
          - id: sales.orders
            format: hudi
            path: /data/orders
            options: {lock: {provider: zookeeper, url: "zk:2181", base_path: /hudi, lock_key: orders}}
            services: {compaction: {schedule: writer}, clean: }
          - {id: unlocked, format: hudi, path: /data/unlocked}
        """
    )
    return file


def _printed(config: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert main(["writer-options", "sales.orders", "--config", str(config), "--url", NOBODY, *more]) == 0
    return capsys.readouterr().out


def _promised(config: Path, engine: WriterEngine) -> Mapping[str, str]:
    table = load(config).tables[0]
    return {one.key: one.value for one in HUDI.writer_options(table, engine=engine, hook_url=HOOK)}


@pytest.mark.parametrize("engine", [WriterEngine.SPARK, WriterEngine.STREAMER])
def test_properties_are_printed_exactly(engine: WriterEngine, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every line is empty, a comment, or `key=value`: what a program reads is what the format promises."""
    lines = _printed(config, capsys, "--engine", engine).splitlines()

    read = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    flags = {key: value for key, value in _promised(config, engine).items() if key.startswith("--")}
    assert {**read, **flags} == _promised(config, engine)
    assert all(any(line.startswith("#") and line.endswith(flag) for line in lines) for flag in flags)


def test_flinks_options_are_printed_for_a_with_clause(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Quoted, with commas between them, and SQL's own comments."""
    lines = [line for line in _printed(config, capsys, "--engine", "flink").splitlines() if line[:2] not in ("", "--")]

    assert all(line.endswith(",") for line in lines[:-1])
    assert not lines[-1].endswith(",")
    read = [found for line in lines for found in re.findall(r"^'(.*)' = '(.*)',?$", line)]
    assert len(read) == len(lines)
    assert dict(read) == _promised(config, WriterEngine.FLINK)


def test_json_says_the_reason_of_each_option(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same as over REST."""
    told = json.loads(_printed(config, capsys, "--json"))

    assert (told["table"], told["engine"], told["worst_lock_hold_seconds"]) == ("sales.orders", "spark", None)
    assert {one["key"]: one["value"] for one in told["options"]} == _promised(config, WriterEngine.SPARK)
    assert all(one["why"] for one in told["options"])


def test_it_says_what_people_might_not_expect(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """That nothing was measured, that nobody acts on the table yet, and what the writer keeps doing."""
    text = _printed(config, capsys)

    assert f"no daemon answers for it at {NOBODY}" in text
    assert "CAREFUL: its mode is observe" in text
    assert "clean" not in next((line for line in text.splitlines() if "Left to the writer" in line), "")


@pytest.mark.parametrize(
    ("table", "said"),
    [("sales.order", "did you mean sales.orders?"), ("unlocked", "names no lock")],
)
def test_what_cannot_be_printed_safely_is_refused_in_one_line(
    table: str, said: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown table, and one whose writers nothing would keep apart."""
    assert main(["writer-options", table, "--config", str(config), "--url", NOBODY]) == 2

    told = capsys.readouterr()
    assert (told.out, len(told.err.splitlines())) == ("", 1)
    assert said in told.err


def test_of_an_iceberg_table_nothing_is_said_of_locks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has none; what its writers leave to us is said instead."""
    file = tmp_path / "lakewarden.yaml"
    file.write_text(
        """
        catalogs: {lake: {format: iceberg, type: hadoop, warehouse: /lake}}
        tables:
          - {id: sales.orders, format: iceberg, path: "catalog://lake/sales.orders", services: {clean: }}
        """
    )

    text = _printed(file, capsys, "--engine", "flink")

    assert "lock" not in text
    assert "-- Lakewarden's, so that no job of yours runs them: clean.\n" in text
    assert "'flink-maintenance.expire-snapshots.enabled' = 'false',\n" in text
