"""Each command of the pages is run against a daemon. What a page tells people to type does what the page says."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from bench.polling.quiet_tables import write_quiet_table
from lakewarden.cli import main
from lakewarden.cli.exit_codes import Code
from lakewarden.demo.daemon import free_port
from lakewarden.service.model.access import Caller, Role
from tests.support.daemon.daemon_harness import prepare
from tests.unit.docs.test_examples import PAGES, ROOT, commands, text_of
from tests.unit.service.http.conftest import ServedDaemon

TABLE = "sales.orders"
KEY = "key-of-alice"

ELSEWHERE = {
    "serve": "tests/integration/daemon",
    "demo": "tests/integration/demo",
    "backup": "tests/unit/service/commands",
    "restore": "tests/unit/service/commands",
    "report": "tests/unit/service/commands",
    "doctor": "tests/unit/service/commands",
}
"""Commands that do not end, or that look at a whole machine or another lake, and the tests that run them."""

ENDS: dict[str, int] = {
    "keys create NAME": Code.USAGE,  # without its role
    "keys revoke 3969e427": Code.NOT_FOUND,
    "keys revoke ID": Code.NOT_FOUND,
    "init PATH --output lakewarden.yaml": Code.USAGE,  # the folder of the test has that file already
    "runs cancel RUN": Code.CONFLICT,  # it has ended
    "runs log RUN": Code.NOT_FOUND,  # a worker of the fake pool writes none
    "approvals approve TABLE SERVICE": Code.CONFLICT,  # nothing waits
    "quarantine release TABLE SERVICE": Code.NOT_FOUND,  # it is in none
    "tables register PATH": Code.CONFLICT,  # the daemon was started without a file
    "tables register s3://lake/sales/orders --id sales.orders --format hudi --policy stream --label domain=sales": (
        Code.CONFLICT
    ),
    "tables change TABLE": Code.NOT_FOUND,
    "tables change sales.orders --mode act": Code.NOT_FOUND,
    "tables remove TABLE": Code.NOT_FOUND,
    "tables remove sales.orders": Code.NOT_FOUND,
    "reload": Code.CONFLICT,  # it was started without a file
    "drain": Code.USAGE,  # without a terminal it asks for --yes
}
"""Commands whose example names something that is not there, or that has ended, and their exit code. All others end with
0.
"""


REWRITES = "trigger sales.orders compaction --"
"""These examples follow each other. What one gets depends on whether the run of the other has ended."""


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Return a folder with a configuration, a Hudi table and a plain directory."""
    write_quiet_table(tmp_path / "orders")
    part = tmp_path / "landing" / "dt=2026-05-01"
    part.mkdir(parents=True)
    (part / "part-0.parquet").write_bytes(b"PAR1")
    lock = {"provider": "zookeeper", "url": "127.0.0.1:2181", "base_path": "/hudi", "lock_key": "orders"}
    table = {"id": TABLE, "format": "hudi", "path": str(tmp_path / "orders"), "options": {"lock": lock}}
    settings = {"api": {"port": free_port()}, "management": {"port": free_port()}, "daemon": {"data_dir": "data"}}
    (tmp_path / "lakewarden.yaml").write_text(json.dumps({**settings, "tables": [table]}))
    return tmp_path


@pytest.fixture
def daemon(lake: Path) -> Iterator[ServedDaemon]:
    """Return a daemon with the table of the pages."""
    made = ServedDaemon(lake / "served", name=TABLE)
    prepare(made.lake)
    made.start()
    made.look()
    yield made
    made.stop()


def _examples() -> list[str]:
    """Return the commands of `lakewarden` on the pages, each once. `drain` comes last, because it ends the daemon, and
    before it what gives a table back.
    """
    said = dict.fromkeys(
        " ".join(shlex.quote(word) for word in words if not word.startswith("[OPTIONS"))
        .replace("'[", "")
        .replace("]'", "")
        for _, words in commands("lakewarden", in_text=False)
    )
    names = [one for one in said if one.split()[0] not in ELSEWHERE and "--watch" not in one and "..." not in one]
    return sorted(names, key=lambda one: (one.startswith("drain"), "--undo" in one))


def test_what_is_run_elsewhere_has_tests_there() -> None:
    """A command that this module leaves out is not run by nobody."""
    assert [folder for folder in ELSEWHERE.values() if not list((ROOT / folder).rglob("test_*.py"))] == []


@pytest.mark.long
def test_each_command_of_lakewarden_does_what_the_page_says(
    lake: Path, daemon: ServedDaemon, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With the table of the pages, in the folder of a configuration. Its exit code is the one that the page leads to
    expect.
    """
    monkeypatch.setenv("LAKEWARDEN_URL", str(daemon.api.base_url))
    run = daemon.api.post(f"/v1/tables/{TABLE}/services/clean/runs").json()["id"]
    daemon.moments.ending()
    stands_for = {
        "TABLE": TABLE,
        "SERVICE": "clean",
        "RUN": run,
        "FILE": "lakewarden.yaml",
        "PLACE": "orders",
        "TIME": "2026-05-01T12:00:00Z",
        "NAME": "somebody",
        "/data/lake/orders": "./orders",
    }
    wrong = []
    with chdir(lake):
        for said in _examples():
            path = "landing" if "directory" in said else "orders"
            words = [{**stands_for, "PATH": path}.get(word, word) for word in shlex.split(said)]
            code = main(words)
            told = capfd.readouterr()
            fits = code in (Code.DONE, Code.NOT_FOUND, Code.CONFLICT) if said.startswith(REWRITES) else False
            if not fits and code != ENDS.get(said, Code.DONE):
                wrong.append((said, code, (told.err or told.out)[-300:]))
    assert not wrong, "\n".join(map(str, wrong))


def _curls() -> Iterator[str]:
    for page in PAGES:
        for line in re.sub(r"\\\n\s*", "", text_of(page)).splitlines():
            if found := re.match(r"^\s*(curl .*?)(?:\s+#.*)?$", line):
                yield found[1]


@pytest.mark.long
def test_each_curl_gets_the_answer_that_the_page_says(lake: Path) -> None:
    """A success, from a daemon that asks for keys."""
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("there is no curl on the PATH")
    keys = {KEY.encode(): Caller(name="alice", role=Role.ADMIN, key="1")}
    daemon = ServedDaemon(lake / "served", name=TABLE, identify=keys.get)
    prepare(daemon.lake)
    daemon.start()
    daemon.look()
    try:
        address = str(daemon.api.base_url)
        wrong = []
        for said in dict.fromkeys(_curls()):
            words = shlex.split(said.replace("$LAKEWARDEN_KEY", KEY))
            sent = [re.sub(r"http://(?:127\.0\.0\.1|LAKEWARDEN):8080", address, word) for word in words[1:]]
            extra = ["--header", f"X-API-Key: {KEY}"] if not any(KEY in word for word in sent) else []
            ended = subprocess.run(
                [
                    curl,
                    *extra,
                    "--max-time",
                    "60",
                    "--silent",
                    "--write-out",
                    "\n%{http_code}",
                    *sent,
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            status = int(ended.stdout.rpartition("\n")[2])
            # Each example stands alone. A run that the pause refused would make its service back off for seconds.
            if "/services/" in said and 200 <= status < 300:
                daemon.moments.ending()
            if "/pause" in said:
                daemon.api.post(f"/v1/tables/{TABLE}/resume", headers={"x-api-key": KEY}).raise_for_status()
            if not (200 <= status < 300 or (status == 404 and "HOLD" in said)):
                wrong.append((said, status, ended.stdout[-300:]))
        assert not wrong, "\n".join(map(str, wrong))
    finally:
        daemon.stop()
