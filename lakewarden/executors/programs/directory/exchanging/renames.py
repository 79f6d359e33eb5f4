"""Two renames that Python does not know: the exchange of two folders, and a rename that replaces nothing.

Source: renameat2(2). Both are one act of the kernel: a reader finds the one state or the other.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from lakewarden.planners.model.errors import PermanentError

_HERE = -100  # AT_FDCWD: the paths are absolute
_NO_REPLACE = 1
_EXCHANGE = 2
_UNKNOWN_TO_THE_DISK = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)
_OF_ONE_PLACE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV)
"""The place belongs to another user, is immutable, or is a mount point or on another disk than the directory."""


def is_of_one_place(error: OSError) -> bool:
    """Whether the kernel refuses an act at this one place. Another place of the same directory may allow it."""
    return error.errno in _OF_ONE_PLACE


def exchange(folder: str, other: str) -> None:
    """Let two folders of one disk change their places. Raises PermanentError where the disk cannot, and OSError."""
    _rename(folder, other, _EXCHANGE, what="exchange two folders in one act")


def move(source: str, target: str) -> None:
    """Rename a file. Raises FileExistsError if the target is there, PermanentError where the disk cannot, and
    OSError.
    """
    _rename(source, target, _NO_REPLACE, what="rename a file without a look at what is there")


def _rename(source: str, target: str, flags: int, *, what: str) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        raise PermanentError(f"the system's C library cannot {what}: directories are compacted on Linux")
    if library.renameat2(_HERE, os.fsencode(source), _HERE, os.fsencode(target), flags) == 0:
        return
    number = ctypes.get_errno()
    if number in _UNKNOWN_TO_THE_DISK:
        raise PermanentError(f"the disk of {target} cannot {what}: remove services.compaction")
    raise OSError(number, os.strerror(number), source, None, target)


def sync_folder(folder: str) -> None:
    """Let the names in a folder survive a loss of power."""
    sync_file(folder, os.O_DIRECTORY)


def sync_file(file: str, flags: int = 0) -> None:
    """Let the content of a file survive a loss of power."""
    opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


# What lies in a folder, in the terms by which a file is known again.


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
    files = {}
    with os.scandir(folder) as listed:
        for entry in listed:
            status = entry.stat(follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode):
                raise NoFileError(f"{entry.name} in {folder} is not a file")
            files[entry.name] = entry_of(status)
    return files


def entry_of(status: os.stat_result) -> Entry:
    """Return a file by what the kernel tells of it."""
    return Entry(size=status.st_size, mtime_ns=status.st_mtime_ns, inode=status.st_ino)
