"""What lies in a folder, in the terms by which a file is known again."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict


class Entry(BaseModel):
    """One file of a folder. It is the same file if size, time and number are the same."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int
    mtime_ns: int
    inode: int


class NoFileError(ValueError):
    """A folder holds something besides files."""


def entries(folder: str) -> Mapping[str, Entry]:
    """Return the files of a folder. Raises FileNotFoundError without it, NoFileError if a folder or a link lies in
    it.
    """
    found = {}
    with os.scandir(folder) as listed:
        for one in listed:
            told = one.stat(follow_symlinks=False)
            if not stat.S_ISREG(told.st_mode):
                raise NoFileError(f"{one.name} in {folder} is no file")
            found[one.name] = entry_of(told)
    return found


def entry_of(told: os.stat_result) -> Entry:
    """Return a file by what the kernel tells of it."""
    return Entry(size=told.st_size, mtime_ns=told.st_mtime_ns, inode=told.st_ino)
