"""`lakewarden writer-options` prints the options of a table's writers, ready to paste."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from lakewarden.cli import main
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.writers.writer_options import STREAMER
from lakewarden.planners.ports import FLINK, SPARK, WriterEngine
from lakewarden.service.config.loading import load
from tests.support.daemon.answers import answering, problem_body, table_body

NOBODY = "http://127.0.0.1:9"
HOOK = "https://lakewarden.example/v1/hooks/hudi"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return a configuration of one table, with the address for writers."""
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


@pytest.mark.parametrize("command", [["writer-options", "sales.orders"], ["keys", "list"], ["serve"]])
def test_without_a_configuration_the_remedy_is_said(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A person in the wrong folder learns how to name the file, or how to get a first one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEWARDEN_CONFIG", raising=False)
    assert main(command) == 2
    said = "".join(capsys.readouterr())
    assert "lakewarden.yaml: no such configuration file" in said
    assert "--config" in said
    assert "lakewarden init" in said
    assert "Traceback" not in said


def test_a_daemon_that_asks_for_a_key_is_no_daemon_that_is_away(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The waits are those without a measurement, and the reader learns how to get the others."""
    refused = problem_body(401, "no API key was sent")
    with answering({"/v1/tables/sales.orders/writer-options?engine=spark": json.dumps(refused)}) as url:
        assert main(["writer-options", "sales.orders", "--config", str(config), "--url", url]) == 0
    said = capsys.readouterr().out
    assert "no daemon answers" not in said
    assert "give an API key with --key-file" in said


@pytest.mark.parametrize("engine", [SPARK, STREAMER])
def test_properties_are_printed_exactly(engine: WriterEngine, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every line is empty, a comment, or `key=value`, as the format promises to programs."""
    lines = _printed(config, capsys, "--engine", engine.name).splitlines()

    read = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    flags = {key: value for key, value in _promised(config, engine).items() if key.startswith("--")}
    assert {**read, **flags} == _promised(config, engine)
    assert all(any(line.startswith("#") and line.endswith(flag) for line in lines) for flag in flags)


def test_flinks_options_are_printed_for_a_with_clause(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are quoted, with commas between them, and with SQL comments."""
    lines = [line for line in _printed(config, capsys, "--engine", "flink").splitlines() if line[:2] not in ("", "--")]

    assert all(line.endswith(",") for line in lines[:-1])
    assert not lines[-1].endswith(",")
    read = [found for line in lines for found in re.findall(r"^'(.*)' = '(.*)',?$", line)]
    assert len(read) == len(lines)
    assert dict(read) == _promised(config, FLINK)


def test_json_says_the_reason_of_each_option(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reasons are the same as over REST."""
    told = json.loads(_printed(config, capsys, "--json"))

    assert (told["table"], told["engine"], told["worst_lock_hold_seconds"]) == ("sales.orders", "spark", None)
    assert {one["key"]: one["value"] for one in told["options"]} == _promised(config, SPARK)
    assert all(one["why"] for one in told["options"])


def test_it_says_what_people_might_not_expect(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says that nothing was measured, that the table is not serviced yet, and which services the writer keeps."""
    text = _printed(config, capsys)

    assert f"no daemon answers for it at {NOBODY}" in text
    assert "CAREFUL: its mode is observe" in text
    assert "clean" not in next((line for line in text.splitlines() if "Left to the writer" in line), "")


@pytest.mark.parametrize(
    ("table", "said", "code"),
    [("sales.order", "did you mean sales.orders?", 4), ("unlocked", "has no lock", 2)],
)
def test_what_cannot_be_printed_safely_is_refused_in_one_line(
    table: str, said: str, code: int, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Examples are an unknown table, and a table without a lock for its writers."""
    assert main(["writer-options", table, "--config", str(config), "--url", NOBODY]) == code

    told = capsys.readouterr()
    assert (told.out, len(told.err.splitlines())) == ("", 1)
    assert said in told.err


def test_of_an_iceberg_table_nothing_is_said_of_locks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has none. Instead the output says which services its writers leave to Lakewarden."""
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
    assert "-- Services of Lakewarden, which no other job may run: clean.\n" in text
    assert "'flink-maintenance.expire-snapshots.enabled' = 'false',\n" in text


_REMOTE = """
{settings}
tables:
  - id: sales.orders
    format: hudi
    path: {path}
    options: {{lock: {{provider: zookeeper, url: "zk:2181", base_path: /hudi, lock_key: orders}}}}
"""


@pytest.mark.parametrize(
    ("settings", "hooks"),
    [("", "http://127.0.0.1:8080"), ("api: {host: localhost}", "http://localhost:8080")],
)
def test_writers_on_other_machines_are_not_sent_to_themselves(
    settings: str, hooks: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A writer of a bucket would announce its commits to its own machine. The error says which setting to make.

    The same address is printed if it is set, and for a local table: then the writers may be on this machine.
    """
    file = tmp_path / "lakewarden.yaml"
    file.write_text(_REMOTE.format(settings=settings, path="s3://lake/orders"))
    assert main(["writer-options", "sales.orders", "--config", str(file), "--url", NOBODY]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "set api.public_url" in told.err

    file.write_text(_REMOTE.format(settings=settings, path="/lake/orders"))
    assert hooks in _printed(file, capsys)
    file.write_text(_REMOTE.format(settings=f"api: {{public_url: '{hooks}'}}", path="s3://lake/orders"))
    assert hooks in _printed(file, capsys)


def _body(engine: str) -> str:
    kind = {"shared": False, "optional": False}
    option = {"key": "hoodie.compact.inline", "value": "false", "why": "Lakewarden compacts.", **kind}
    known = {"table": "sales.orders", "mode": "act", "engine": engine, "worst_lock_hold_seconds": 2.5}
    return json.dumps({**known, "options": [option], "ours": ["compaction"], "left_to_writer": []})


@pytest.mark.parametrize("has_a_file", [False, True])
@pytest.mark.parametrize("engine", ["spark", "flink"])
def test_a_table_that_only_the_daemon_knows_has_the_options_that_it_says(
    has_a_file: bool, engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An operator's own machine has no configuration, and a table that was registered stands in none."""
    file = tmp_path / "lakewarden.yaml"
    if has_a_file:
        file.write_text("tables: []\n")
    asked = ["writer-options", "sales.orders", "--engine", engine, "--config", str(file)]
    with answering({f"/v1/tables/sales.orders/writer-options?engine={engine}": _body(engine)}) as url:
        assert main([*asked, "--url", url]) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if line and line[:1] not in ("#", "-")]
        assert main([*asked, "--url", url, "--json"]) == 0
        body = json.loads(capsys.readouterr().out)

    assert lines == [{"spark": "hoodie.compact.inline=false", "flink": "'hoodie.compact.inline' = 'false'"}[engine]]
    assert body == json.loads(_body(engine))


def test_a_table_that_the_daemon_does_not_know_either_is_named_with_similar_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is that of a name that is not known."""
    tables = json.dumps({"items": [table_body("sales.orders")], "next": None})
    with answering({"/v1/tables?limit=1000": tables}) as url:
        assert main(["writer-options", "sales.order", "--config", str(tmp_path / "none.yaml"), "--url", url]) == 4

    assert "did you mean sales.orders?" in capsys.readouterr().err
