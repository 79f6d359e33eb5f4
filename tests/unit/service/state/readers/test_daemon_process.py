"""A daemon as it is started: its own process opens no file of a table that it looks at."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.polling.quiet_tables import write_quiet_table

PROGRAM = """
import sys, threading
from pathlib import Path
lake, told = sys.argv[1], open(sys.argv[2], "w")
def hook(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith(lake):
        told.write(f"{threading.current_thread().name} {event} {arguments[0]}\\n")
        told.flush()
sys.addaudithook(hook)
open(f"{lake}/witness").close()
from lakewarden.service.wiring.serving import serve
sys.exit(serve(Path(sys.argv[3])))
"""


def ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return found


def ask(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return json.load(answer)


def until(port: int, seen: Any, seconds: float = 60) -> dict[str, Any]:
    """Return the table as the API shows it once `seen` holds of it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            table: dict[str, Any] = ask(port, "/v1/tables/a.table")
            if seen(table):
                return table
        except OSError:
            pass  # not served yet
        time.sleep(0.1)  # a real process: there is no other sign of it
    raise AssertionError("it did not come")


@pytest.mark.long
def test_the_daemons_own_process_opens_no_file_of_a_table(tmp_path: Path) -> None:
    """It sees the table and its changes all the same: others have read them."""
    lake, told, config = tmp_path / "orders", tmp_path / "told", tmp_path / "lakewarden.yaml"
    write_quiet_table(lake)
    (lake / "witness").touch()
    api, management = ports(2)
    config.write_text(
        yaml.safe_dump(
            {
                "api": {"port": api},
                "management": {"port": management},
                "defaults": {"poll": "200ms"},
                "tables": [{"id": "a.table", "format": "hudi", "path": str(lake)}],
            }
        )
    )
    daemon = subprocess.Popen([sys.executable, "-c", PROGRAM, str(lake), str(told), str(config)])
    try:
        before = until(api, lambda table: table["latest_instant"] is not None)
        for state in (".requested", ".inflight", ""):
            (lake / ".hoodie" / "timeline" / f"20990101000000000.deltacommit{state}").touch()
        until(api, lambda table: table["latest_instant"] != before["latest_instant"])
    finally:
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(30) == 0
    opened = told.read_text().splitlines()
    assert "witness" in opened[0], "what is opened in the daemon's process is told"
    assert opened[1:] == []
