"""Tables registered with a daemon that is started and killed as users do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden.cli import main
from lakewarden.cli.exit_codes import Code
from tests.support.daemon.daemon_process import DaemonProcess


class Directory:
    """A plain directory, as the table of the configuration."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "day=2026-01-01").mkdir(parents=True)
        (folder / "day=2026-01-01" / "part-0.parquet").write_bytes(b"PAR1")

    @property
    def configured(self) -> dict[str, str]:
        return {"format": "directory", "path": str(self.folder), "mode": "observe"}

    @property
    def catalogs(self) -> dict[str, str]:
        return {}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    """Yield a running daemon."""
    daemon = DaemonProcess(tmp_path / "daemon", Directory(tmp_path / "lake" / "listed"), {})
    daemon.start()
    daemon.until(lambda: daemon.get("/v1/tables"))
    yield daemon
    daemon.stop()


def test_a_registered_table_survives_a_killed_daemon(
    daemon: DaemonProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is observed as the tables of the file are. After its removal it is gone for good, and its files are there."""
    other = Directory(tmp_path / "lake" / "other")
    asked = ["--format", "directory", "--id", "other", "--label", "domain=sales", "--url", daemon.url]
    assert main(["tables", "register", str(other.folder), *asked]) == Code.DONE
    assert main(["tables", "register", str(other.folder), *asked]) == Code.CONFLICT
    assert "registered already" in capsys.readouterr().err

    for _ in range(2):
        daemon.until(lambda: (daemon.get("/v1/tables/other") or {}).get("observed_at"))
        daemon.kill()
        daemon.start()
        daemon.until(lambda: daemon.get("/v1/tables"))
    assert main(["tables", "change", "other", "--mode", "plan", "--url", daemon.url]) == Code.DONE
    daemon.until(lambda: daemon.get("/v1/tables/other")["mode"] == "plan")
    assert daemon.get("/v1/tables/other")["labels"] == {"domain": "sales"}

    assert main(["tables", "remove", "other", "--url", daemon.url]) == Code.DONE
    daemon.until(lambda: "other" not in json.dumps(daemon.get("/v1/tables")))
    daemon.kill()
    daemon.start()
    daemon.until(lambda: daemon.get("/v1/tables"))
    assert [one["id"] for one in daemon.get("/v1/tables")["items"]] == ["sales.orders"]
    assert [path.name for path in (other.folder / "day=2026-01-01").iterdir()] == ["part-0.parquet"]
