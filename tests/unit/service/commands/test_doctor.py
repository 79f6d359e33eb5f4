"""`lakewarden doctor` says what works from this machine, and changes nothing."""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
import yaml
from pyiceberg.catalog.sql import SqlCatalog

from lakewarden.cli import main
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.proof import ProofResult, proved, wrong
from lakewarden.service.commands.doctor import at_once, in_time, print_proofs
from tests.support.hudi.hudi_table import HudiTable


@pytest.fixture
def listening() -> Iterator[int]:
    """Yield a port that accepts connections, as a lock server does."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def _config(folder: Path, tables: list[dict[str, Any]], **more: Any) -> Path:
    file = folder / "lakewarden.yaml"
    free = {"api": {"port": 1}, "management": {"port": 2}, **more}
    file.write_text(yaml.safe_dump({**free, "daemon": {"data_dir": str(folder / "data")}, "tables": tables}))
    return file


def _table(name: str, path: Path, lock: int) -> dict[str, Any]:
    zookeeper = {"provider": "zookeeper", "url": f"127.0.0.1:{lock}", "base_path": "/hudi", "lock_key": name}
    return {"id": name, "format": "hudi", "path": str(path), "options": {"lock": zookeeper}}


def _checked(file: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = main(["doctor", "--config", str(file), "--json"])
    return code, {one["check"]: one for one in json.loads(capsys.readouterr().out)["checks"]}


def test_what_works_is_ok_and_nothing_is_made(
    tmp_path: Path, listening: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table is read, its lock is reached, and the data folder is not made."""
    table = HudiTable(tmp_path / "trips", version=9, clock=ManualClock(), zone=ZoneInfo("UTC"))
    code, found = _checked(_config(tmp_path, [_table("trips", table.folder, listening)]), capsys)

    assert [name for name, one in found.items() if one["result"] == "wrong"] == []
    assert code == 0
    for name in ("configuration", "data_dir", "store", "jvm", f"lock 127.0.0.1:{listening}", "table trips"):
        assert found[name]["result"] == "ok", found[name]
    assert not (tmp_path / "data").exists()


def test_each_failure_is_a_line_with_its_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The others are still checked. The exit code is 1."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    good, escape = (
        HudiTable(tmp_path / "trips", version=9, clock=ManualClock(), zone=ZoneInfo("UTC")),
        tmp_path / "none",
    )
    file = _config(tmp_path, [_table("trips", good.folder, port), _table("gone", escape, port)])
    code, found = _checked(file, capsys)

    assert code == 1
    failed = {name: one["cure"] for name, one in found.items() if one["result"] == "wrong"}
    assert failed.keys() == {f"lock 127.0.0.1:{port}", "table gone"}
    assert all(failed.values())
    assert found["table trips"]["result"] == "ok"

    assert main(["doctor", "--config", str(file)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("wrong       table gone") for line in lines)
    assert sum(line.strip().startswith("-> ") for line in lines) == len(failed)


def test_two_names_of_one_folder_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The check of one of the two tables names the other."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/wh")
    catalog.create_namespace("db")
    made = catalog.create_table("db.a", pa.schema([("id", pa.int64())]))
    catalog.register_table("db.b", made.metadata_location)
    catalog.engine.dispose()
    uri = f"jdbc:sqlite:{tmp_path}/catalog.db"
    lake = {"format": "iceberg", "type": "jdbc", "uri": uri, "warehouse": str(tmp_path / "wh")}
    tables = [{"id": name, "format": "iceberg", "path": f"catalog://lake/db.{name}"} for name in "ab"]
    code, found = _checked(_config(tmp_path, tables, catalogs={"lake": lake}), capsys)

    (second,) = (f"table {name}" for name in "ab" if found[f"table {name}"]["result"] == "wrong")
    other = "table a" if second == "table b" else "table b"
    assert code == 1
    assert found[second]["found"].startswith(f"its folder is also registered as {other[-1]}: one folder is one table")
    assert found[second]["cure"] == "remove one of the two entries"
    assert found[other]["result"] == "ok"


def test_a_damaged_store_is_found_before_the_daemon_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file stays as it is."""
    (tmp_path / "data").mkdir()
    store = tmp_path / "data" / "lakewarden.db"
    store.write_bytes(b"this is no database" * 100)
    code, found = _checked(_config(tmp_path, []), capsys)

    assert (code, found["store"]["result"]) == (1, "wrong")
    assert "not a database" in found["store"]["found"]
    assert store.read_bytes() == b"this is no database" * 100


def test_a_wrong_configuration_leaves_the_rest_unchecked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has the first problem, and names the command that prints all."""
    file = tmp_path / "lakewarden.yaml"
    file.write_text("daemon: {drian: 1s}\n")
    code, found = _checked(file, capsys)
    assert code == 1
    assert "did you mean drain?" in found["configuration"]["found"]
    assert found["everything else"]["result"] == "not proved"


def test_a_check_that_never_answers_ends_in_time() -> None:
    """A store that hangs does not keep the other findings from the operator."""
    never = threading.Event()

    def hangs() -> Any:
        never.wait()

    def raises() -> Any:
        raise KeyError("a library's own")

    checks = [
        lambda: in_time("hangs", hangs, seconds=0.05, remedy="look at it"),
        lambda: in_time("raises", raises, seconds=5, remedy="look at it"),
        lambda: proved("works", "fine"),
    ]
    found = at_once(checks)
    never.set()
    assert [one.check for one in found] == ["hangs", "raises", "works"]
    assert [one.result for one in found] == [ProofResult.WRONG, ProofResult.WRONG, ProofResult.OK]
    assert "no answer within 0.05s" in found[0].found


def test_a_remedy_keeps_its_lines() -> None:
    """No line is cut off, and no line break is a backslash."""
    out = io.StringIO()
    print_proofs([wrong("table", "blocked", "name the lock:\n  lock: {provider: zookeeper}")], out=out)
    assert "\\n" not in out.getvalue()
    assert [one.strip() for one in out.getvalue().splitlines()[1:]] == [
        "-> name the lock:",
        "lock: {provider: zookeeper}",
    ]
