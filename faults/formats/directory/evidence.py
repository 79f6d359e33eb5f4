"""Gathers what is left of a directory, by its files and its journals. No code of Lakewarden is used, for it is under
test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from lakewarden.demo.formats.directory.reader import EXPIRED, MARKER

_OURS = "_lakewarden"


def journals(table: Path) -> Iterator[tuple[str, bool]]:
    """Yield each act that is not ended: its name, and whether it deletes a partition."""
    with suppress(FileNotFoundError):
        for home in (table / _OURS).iterdir():
            deletes = False
            with suppress(FileNotFoundError, NotADirectoryError, ValueError):
                deletes = not json.loads((home / "record.json").read_text())["new"]
            yield home.name, deletes


def not_done(table: Path) -> Iterator[str]:
    """Yield what services have still to do in partitions of the writers."""
    for partition in sorted(table.glob("dt=*/at=*")):
        if partition.parent.name.startswith(EXPIRED) or not partition.is_dir():
            continue
        data = [file for file in partition.iterdir() if file.name[0] not in "._"]
        if len(data) > 1:
            yield f"{partition.name} has {len(data)} small files"
        marker = partition / MARKER
        if data and not (marker.exists() and all(file.stat().st_mtime_ns < marker.stat().st_mtime_ns for file in data)):
            yield f"{partition.name} has no marker that is newer than its data"
