"""The command line against a daemon that was started as a new user starts it, with keys of each role."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakewarden.cli import main
from lakewarden.client import Client
from lakewarden.demo.daemon import free_port

ROLES = ("viewer", "hook", "trigger", "operator", "admin")
TABLES = 7


class Served:
    """A running daemon with directories as tables, and a key of each role."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        for number in range(TABLES):
            day = folder / "lake" / f"orders{number}" / "day=2026-01-01"
            day.mkdir(parents=True)
            (day / "part-0.parquet").write_bytes(b"PAR1")
        tables = [
            {"id": f"sales.orders{number}", "format": "directory", "path": str(folder / "lake" / f"orders{number}")}
            for number in range(TABLES)
        ]
        config = {
            "access": {"authentication": "keys"},
            "api": {"port": self.port},
            "management": {"port": free_port()},
            "daemon": {"data_dir": str(folder / "data"), "drain": "1s"},
            "tables": tables,
        }
        self.config = folder / "lakewarden.yaml"
        self.config.write_text(json.dumps(config))
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def key(self, role: str) -> Path:
        """Return the file with the key of a role."""
        return self.folder / f"{role}.key"

    def start(self) -> None:
        """Start the daemon, and wait until it answers."""
        log = (self.folder / "daemon.log").open("wb")
        command = [sys.executable, "-m", "lakewarden.cli", "serve", "--config", str(self.config)]
        self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        deadline = time.monotonic() + 90
        while True:
            try:
                if httpx.get(f"{self.url}/v1/tables", verify=False).status_code == 401:
                    return
            except httpx.TransportError:
                pass
            assert self.process.poll() is None, (self.folder / "daemon.log").read_text()
            assert time.monotonic() < deadline, (self.folder / "daemon.log").read_text()
            time.sleep(0.1)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Yield a running daemon."""
    served = Served(tmp_path_factory.mktemp("served"))
    for role in ROLES:
        out = io.StringIO()
        with redirect_stdout(out):
            assert main(["keys", "create", role, "--role", role, "--json", "--config", str(served.config)]) == 0
        served.key(role).write_text(json.loads(out.getvalue())["key"])
    served.start()
    assert served.process is not None
    try:
        yield served
    finally:
        if served.process.poll() is None:
            os.kill(served.process.pid, signal.SIGTERM)
        served.process.wait(60)


def _told(served: Served, capsys: pytest.CaptureFixture[str], role: str, *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([*words, "--url", served.url, "--key-file", str(served.key(role))])
    told = capsys.readouterr()
    return code, told.out, told.err


def _body(served: Served, path: str, role: str) -> Any:
    headers = {"X-API-Key": served.key(role).read_text()}
    return httpx.get(f"{served.url}{path}", headers=headers, verify=False, timeout=30).json()


BODIES: Mapping[str, Sequence[str]] = {
    "/v1/replicas": ["replicas"],
    "/v1/tables/sales.orders0/policies": ["policies", "sales.orders0"],
    "/v1/tables/sales.orders0/timeline?pending=true": ["timeline", "sales.orders0", "--pending"],
    "/v1/config": ["config"],
    "/v1/approvals": ["approvals"],
    "/v1/runs": ["runs"],
    "/v1/audit?limit=3": ["audit", "--limit", "3"],
}


def test_json_is_the_body_of_the_api(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts may read docs/openapi.json alone."""
    for path, words in BODIES.items():
        code, out, _ = _told(served, capsys, "admin", *words, "--json")
        assert code == 0, words
        assert json.loads(out) == _body(served, path, "admin"), words


def test_all_pages_are_read(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit is kept, and then JSON has the cursor of the rest."""
    monkeypatch.setattr(Client, "PAGE", 2)
    named = [f"sales.orders{number}" for number in range(TABLES)]
    _, out, _ = _told(served, capsys, "viewer", "tables", "--json")
    assert [one["id"] for one in json.loads(out)["items"]] == named
    assert json.loads(out)["next"] is None

    _, out, _ = _told(served, capsys, "viewer", "tables", "--json", "--limit", "3")
    some = json.loads(out)
    assert [one["id"] for one in some["items"]] == named[:3]
    rest = _body(served, f"/v1/tables?after={some['next']}", "viewer")
    assert [one["id"] for one in rest["items"]] == named[3:]

    _, out, _ = _told(served, capsys, "viewer", "tables")
    assert [line.split("\t")[0] for line in out.splitlines()] == ["ID", *named]
    client = Client(served.url, key=served.key("viewer").read_text())
    assert [one["id"] for one in client.each(client.tables)] == named


def test_exit_codes_say_what_happened(served: Served, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The codes are those of docs/cli.md, and each error is one line."""
    wrong = tmp_path / "wrong.key"
    wrong.write_text("lwk_" + "x" * 43)
    cases: Mapping[tuple[str, ...], tuple[str, int]] = {
        ("audit",): ("operator", 3),
        ("tables",): ("hook", 3),
        ("tables", "pause", "sales.orders0"): ("trigger", 3),
        ("tables", "show", "sales.order0"): ("viewer", 4),
        ("tables", "show", "../../etc/passwd"): ("viewer", 4),
        ("tables", "show", "a\x1b[2J?x=1#/%2f"): ("viewer", 4),
        ("runs", "show", "none"): ("viewer", 4),
        ("trigger", "sales.orders0", "compaction"): ("trigger", 4),
        ("approvals", "approve", "sales.orders0", "clean"): ("operator", 4),
        ("runs", "--state", "NOPE"): ("viewer", 2),
        ("tables", "--url", "http://127.0.0.1:9"): ("viewer", 5),
    }
    for words, (role, expected) in cases.items():
        known = [] if "--url" in words else ["--url", served.url]
        capsys.readouterr()
        code = main([*words, *known, "--key-file", str(served.key(role))])
        told = capsys.readouterr()
        assert (code, told.out, len(told.err.splitlines())) == (expected, "", 1), (words, told.err)
        assert told.err[:-1].isprintable()
    assert main(["tables", "--url", served.url, "--key-file", str(wrong)]) == 3
    assert "give an API key with --key-file" in capsys.readouterr().err


def test_an_act_of_a_person_is_done_and_told(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """A pause is seen in the list, and is in the audit log with its person."""
    assert _told(served, capsys, "operator", "tables", "pause", "sales.orders1", "--reason", "a [red]move[/]")[0] == 0
    _, out, _ = _told(served, capsys, "viewer", "tables", "--only", "paused")
    assert out.splitlines()[1].startswith("sales.orders1\t")
    assert "a [red]move[/]" in out
    assert _told(served, capsys, "operator", "tables", "resume", "sales.orders1")[0] == 0
    _, out, _ = _told(served, capsys, "admin", "audit", "--table", "sales.orders1")
    assert [line.split("\t")[1:3] for line in out.splitlines()[1:3]] == [
        ["operator", "resumed"],
        ["operator", "paused"],
    ]


@pytest.mark.parametrize("columns", [24, 80])
def test_a_terminal_of_any_width_is_kept_to(served: Served, columns: int) -> None:
    """On a real terminal no line is wider than the terminal. A narrow one breaks the ids of tables."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "xterm"}
    command = [sys.executable, "-m", "lakewarden.cli", "tables", "--url", served.url]
    command += ["--key-file", str(served.key("viewer"))]
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    said = b""
    while True:
        try:
            read = os.read(ours, 65536)
        except OSError:  # the terminal's other end is closed
            break
        if not read:
            break
        said += read
    os.close(ours)
    assert process.wait(60) == 0, said
    lines = re.sub(r"\x1b\[[\d;]*m", "", said.decode()).replace("\r", "").split("\n")
    assert columns < 80 or any("sales.orders0" in line for line in lines)
    assert 0 < max(map(len, lines)) <= columns


def test_the_last_word_ends_the_daemon(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """`drain` asks before, and a daemon that has gone is exit code 5. It is the last test of this daemon."""
    assert served.process is not None
    code, _, err = _told(served, capsys, "admin", "drain")
    assert (code, "add --yes" in err) == (2, True)
    assert _told(served, capsys, "operator", "drain", "--yes")[0] == 3
    assert _told(served, capsys, "admin", "drain", "--yes")[0] == 0
    assert served.process.wait(60) == 0
    assert _told(served, capsys, "viewer", "tables")[0] == 5
