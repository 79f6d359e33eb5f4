"""`./dev fuzz api`: requests made from the OpenAPI of both ports, one alone and many in a row, for a started daemon."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from docs.rest import OPENAPI, OPENAPI_MANAGEMENT
from lakewarden.demo.daemon import free_port
from tests.support import doubles
from tests.support.doubles.fake import FakeTable

NAME = "api"

PHASES = "examples,coverage,fuzzing,stateful"
"""In a stateful phase, requests follow each other with what the answers before them named."""

ALONE = "examples,coverage,fuzzing"
"""The phases of a port on which no request needs another one."""

_STARTS_WITHIN = 120.0
_ENDS_THE_DAEMON = "/v1/drain"
_CHECKS = """
[checks]
enabled = true
# OpenAPI cannot say which bodies of senders, durations and places of tables are accepted.
positive_data_acceptance.enabled = false

[[operations]]
# A deletion empties a collection. The collection is still there afterwards.
include-path = "/v1/tables/{table}/barrier"
checks.use_after_free.enabled = false
"""


def fuzz_api(folder: Path, *, seconds: float, seed: int) -> bool:
    """Fuzz both ports of a started daemon, and print what was found. Returns whether anything was found.

    Found is an answer with a status of 500 or above, or one that its OpenAPI does not describe.
    """
    with started(folder) as (api, management):
        found = [
            _tried(folder, OPENAPI, api, seconds=seconds, seed=seed, phases=PHASES),
            _tried(folder, OPENAPI_MANAGEMENT, management, seconds=min(seconds, 10), seed=seed, phases=ALONE),
        ]
    return any(found)


@contextmanager
def started(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the addresses of the API port and the management port of a daemon with tables of the fake format."""
    ports = free_port(), free_port()
    lake = folder / "lake"
    for name in ("orders", "returns"):
        table = FakeTable.create(lake / name)
        for _ in range(4):
            table.write()
    (folder / "lakewarden.yaml").write_text(json.dumps(_configuration(lake, *ports)))
    (folder / "schemathesis.toml").write_text(_CHECKS)
    with (folder / "daemon.log").open("ab") as log:
        command = [*doubles.DAEMON, "--config", "lakewarden.yaml"]
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            api, management = (f"http://127.0.0.1:{port}" for port in ports)
            _wait_for(f"{api}/openapi.json", process)
            yield api, management
        finally:
            process.terminate()
            process.wait(timeout=60)


def _configuration(lake: Path, api: int, management: int) -> dict[str, object]:
    return {
        "api": {"port": api},
        "management": {"port": management},
        "daemon": {"data_dir": "data", "drain": "1s"},
        "roots": [str(lake)],
        "policies": {"stream": {"mode": "plan", "services": {"compaction": {}}}},
        "tables": [{"id": "orders", "format": "fake", "path": str(lake / "orders"), "policy": "stream"}],
    }


def _wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until the daemon answers. Raises RuntimeError if it ends, or takes too long."""
    deadline = time.monotonic() + _STARTS_WITHIN
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urlopen(address, timeout=10):
                return
        except (URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError("the daemon did not start: see daemon.log")


def _tried(folder: Path, schema: Path, url: str, *, seconds: float, seed: int, phases: str) -> bool:
    code = "import sys; from schemathesis.cli import schemathesis; sys.exit(schemathesis())"
    command: Sequence[str] = (
        *(sys.executable, "-c", code, "run", str(schema), "--url", url),
        *("--exclude-path", _ENDS_THE_DAEMON),
        *("--phases", phases, "--max-time", str(max(1, round(seconds))), "--seed", str(seed)),
        *("--request-timeout", "60", "--max-response-time", "60", "--no-color"),
    )
    print(f"{url} with the seed {seed}", flush=True)
    return subprocess.run(command, cwd=folder, check=False).returncode != 0
