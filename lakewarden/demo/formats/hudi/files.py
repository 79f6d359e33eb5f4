"""The files in a table's folder, counted from outside."""

from __future__ import annotations

import os
from pathlib import Path


def count_file_versions(table: Path) -> int:
    """Return the number of base files below a Hudi table's partitions. Each is a version of its file group.

    Names are `<fileId>_<writeToken>_<instant>.parquet`. The metadata folder `.hoodie` holds no data.
    """
    count = 0
    for folder, folders, files in os.walk(table):
        folders[:] = [name for name in folders if not name.startswith(".")]
        if folder != str(table):
            count += sum(name.endswith(".parquet") and not name.startswith(".") for name in files)
    return count
