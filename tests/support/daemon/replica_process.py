"""A real daemon on a database that it may share with others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.daemon.daemon_process import Configured, DaemonProcess


class ReplicaProcess(DaemonProcess):
    """A daemon on a database that it may share with others, or (None) on a SQLite file."""

    def __init__(
        self, folder: Path, table: Configured, services: Mapping[str, Any], *, database: str | None, drain: str = "20s"
    ) -> None:
        super().__init__(folder, table, services, memory="512m", slots=2)
        file = folder / "lakewarden.yaml"
        settings = json.loads(file.read_text())
        settings["daemon"] = {"data_dir": "data", "drain": drain, "lease": "10s"}
        if database is not None:
            settings["database"] = {"url": database}
        file.write_text(json.dumps(settings))

    def owns(self) -> bool:
        """Whether it says of itself that it owns a table."""
        return any(
            replica["here"] and replica["tables"] for replica in (self.get("/v1/replicas") or {"items": []})["items"]
        )
