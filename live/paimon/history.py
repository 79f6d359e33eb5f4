"""All snapshots that a table has had at any time. They are read while the writers write, because snapshots expire."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lakewarden.planners.model.instant import Service

_RUN = "lakewarden-"


class SnapshotsSeen:
    """The snapshots of one table by their numbers. A snapshot that was replaced counts as what it is now."""

    def __init__(self, table: Path) -> None:
        self._folder = table / "snapshot"
        self._versions: dict[str, tuple[int, int]] = {}
        self._seen: dict[int, Mapping[str, Any]] = {}

    def look(self) -> None:
        """Read the snapshots that are new or changed."""
        for file in self._folder.glob("snapshot-*"):
            with suppress(FileNotFoundError, ValueError):
                stat = file.stat()
                version = (stat.st_ino, stat.st_mtime_ns)
                if self._versions.get(file.name) != version:
                    snapshot = json.loads(file.read_text())
                    self._seen[int(snapshot["id"])] = snapshot
                    self._versions[file.name] = version

    def authors(self) -> dict[str, str]:
        """Return the runs that the snapshots name, by the numbers of the snapshots."""
        users = {number: str(snapshot["commitUser"]) for number, snapshot in self._seen.items()}
        return {str(number): user.removeprefix(_RUN) for number, user in users.items() if user.startswith(_RUN)}

    def services(self) -> dict[str, Service]:
        """Return the services of our snapshots: a ttl overwrites, and a compaction does not."""
        kinds = {str(number): snapshot["commitKind"] for number, snapshot in self._seen.items()}
        return {one: Service.TTL if kinds[one] == "OVERWRITE" else Service.COMPACTION for one in self.authors()}

    def compacted(self) -> Iterator[int]:
        """Yield the numbers of our snapshots, which must have the rows of the snapshots before them, but for those of
        partitions that are long past.
        """
        return (int(number) for number in self.authors())

    def missing(self) -> list[int]:
        """Return the numbers that no snapshot had when it was looked for. Numbers have no gaps."""
        return sorted(set(range(1, max(self._seen, default=0) + 1)) - self._seen.keys())

    def written_until(self, number: int) -> int:
        """Return the newest commit identifier of the writer in a snapshot and those before it. It is 0 before the first
        one.
        """
        ours = self.authors()
        return max(
            (
                int(snapshot["commitIdentifier"])
                for one, snapshot in self._seen.items()
                if one <= number and str(one) not in ours
            ),
            default=0,
        )
