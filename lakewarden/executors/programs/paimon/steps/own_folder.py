"""The folder of Lakewarden below a table's folder on a disk."""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime

from lakewarden.planners.formats.paimon.deletion.orphans_beside import OURS


def disk_clock(location: str) -> datetime:
    """Return the current time of the disk: a file is written, and deleted again. Raises OSError."""
    os.makedirs(f"{location}/{OURS}", exist_ok=True)  # noqa: PTH103 - a location, as all paths of this package
    with tempfile.NamedTemporaryFile(dir=f"{location}/{OURS}", prefix=".clock.") as file:
        file.write(b"-")
        file.flush()
        return datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)


def write_whole(path: str, content: bytes) -> None:
    """Write a file of the folder in the place of the one before. A kill leaves one of the two whole. Raises OSError."""
    scratch = f"{path}.next"
    with open(scratch, "wb") as file:  # noqa: PTH123 - a location
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(scratch, path)  # noqa: PTH105 - a location
