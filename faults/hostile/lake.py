"""The good tables: a lock service, a live writer, and what must be true of each table at the end."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.checking.checker import Rule, violations
from faults.checking.history import History
from faults.formats.hudi.evidence import files_needed, files_there, read_timeline
from lakewarden.demo.daemon import environment
from lakewarden.demo.formats.hudi.reader import read_snapshot
from lakewarden.demo.writers.orders import read_record
from live.hudi.travel import travel

_JUDGED = (Rule.ROWS, Rule.FILES, Rule.TRAVEL, Rule.WRITER)
SERVICES: Mapping[str, Any] = {
    "compaction": {"trigger": {"num_commits": 3}},
    "clean": {"trigger": {"num_commits": 3}, "options": {"commits_retained": 4}},
}
"""The services of every good table. Each of them must have succeeded at the end."""


@dataclass(frozen=True, kw_only=True)
class Lake:
    """A number of good tables in a folder: `good-0` and so on."""

    folder: Path
    tables: int
    poll: str

    @property
    def names(self) -> Sequence[str]:
        """Return the tables' ids, which are also their folders'."""
        return [f"good-{number}" for number in range(self.tables)]

    def entries(self, *, zookeeper: str) -> list[dict[str, Any]]:
        """Return the tables' entries in the configuration."""
        return [
            {
                "id": name,
                "format": "hudi",
                "path": str(self.folder / name),
                "mode": "act",
                "poll": self.poll,
                "options": {
                    "lock": {"provider": "zookeeper", "url": zookeeper, "base_path": "/hudi", "lock_key": name}
                },
                "services": dict(SERVICES),
            }
            for name in self.names
        ]

    def tell_writer(self, config: Path) -> None:
        """Write the options that `lakewarden writer-options` prints for the tables' writer. They are asked of the first
        table. The other tables differ only in their lock's key, which is their name.
        """
        first = self.names[0]
        command = [sys.executable, "-m", "lakewarden.cli", "writer-options", first]
        command += ["--engine", "spark", "--json", "--config", str(config)]
        told = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
        options = {option["key"]: option["value"] for option in json.loads(told.stdout)["options"]}
        for name in self.names:
            own = {key: name if value == first else value for key, value in options.items()}
            (self.folder / f"{name}.json").write_text(json.dumps(own), encoding="utf-8")

    def commits(self) -> Mapping[str, int]:
        """Return how many commits of the writer were acknowledged, by table."""
        return {name: len(read_record(self.folder / f"{name}.jsonl").acknowledged()) for name in self.names}

    def failures(self) -> int:
        """Return how many commits of the writer failed."""
        return sum(len(read_record(self.folder / f"{name}.jsonl").failures()) for name in self.names)

    def copy(self, name: str, to: Path) -> None:
        """Copy a table as it is, including plans, as a backup does. Files that are removed meanwhile are left out."""
        with contextlib.suppress(shutil.Error):  # copied last, after all other files
            shutil.copytree(self.folder / name, to, ignore=shutil.ignore_patterns(".temp"))

    def wrong(self) -> list[str]:
        """Return what is wrong with the tables, as foreign readers find them. Their writer must have ended."""
        return [f"{name}: {what}" for name in self.names for what in self._wrong_with(name)]

    def _wrong_with(self, name: str) -> list[str]:
        table, record = self.folder / name, read_record(self.folder / f"{name}.jsonl")
        timeline, metadata = read_timeline(table)
        history = History(
            expected=record.expected_rows(),
            found=read_snapshot(table).rows,
            needed=files_needed(table, metadata),
            files=files_there(table),
            timeline=timeline,
            journeys=travel(table, {"writer": record}),
            failures=record.failures(),
        )
        return [str(one) for one in violations(history) if one.rule in _JUDGED]


def unserviced(names: Sequence[str], runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the services of the tables that did not succeed at all, and the runs that failed. Pure."""
    ended = Counter((str(run["table"]), str(run["service"]), str(run["state"])) for run in runs)
    found = [
        f"{name}: no {service} has succeeded"
        for name in names
        for service in SERVICES
        if not ended[name, service, "SUCCEEDED"]
    ]
    failed = [run for run in runs if run["table"] in names and run["state"] == "FAILED"]
    return [*found, *(f"{run['table']}: {run['service']} failed: {str(run['outcome'])[:300]}" for run in failed)]
