"""Local disks."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from lakewarden.planners.model.errors import PermanentError, TemporaryError, UnknownError
from lakewarden.planners.ports import MOST_ENTRIES, FileEntry
from lakewarden.planners.storage.content import moment, too_large, too_many, within

_T = TypeVar("_T")
_AT_ONCE = 1000


class LocalStorage:
    """Local disks, by the calls of the operating system."""

    def stamp(self, location: str) -> str:
        """Return the folder's modification time and inode. It takes one stat."""
        status = _looked_at(location)
        return f"{status.st_mtime_ns:x}.{status.st_ino:x}"

    def version(self, location: str) -> str:
        """Return the file's modification time, inode and size. It takes one stat."""
        status = _looked_at(location)
        return f"{status.st_mtime_ns:x}.{status.st_ino:x}.{status.st_size:x}"

    def changed_at(self, location: str) -> datetime | None:
        """Return the folder's modification time."""
        return moment(_looked_at(location).st_mtime)

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        """Return the folder's entries. An entry that is deleted meanwhile is left out, and so is a link that leads
        nowhere.
        """

        def scan() -> list[FileEntry]:
            entries: list[FileEntry] = []
            with os.scandir(location) as scan_entries:
                for place, entry in enumerate(scan_entries):
                    if place == most:
                        raise too_many(location, most)
                    if (file_entry := _entry(entry)) is not None:
                        entries.append(file_entry)
            return entries

        return _scanned(location, scan)

    def entries(self, location: str) -> Iterator[FileEntry]:
        """Yield the folder's entries, as a listing has them. They are read in parts."""
        with _scanned(location, lambda: os.scandir(location)) as scan:
            while part := _translated(location, lambda: [_entry(entry) for entry in itertools.islice(scan, _AT_ONCE)]):
                yield from (entry for entry in part if entry is not None)

    def present(self, location: str, names: Collection[str]) -> Collection[str]:
        """Return the names that the folder has. It takes one stat for each. A link counts, wherever it leads."""

        def is_there(name: str) -> bool:
            try:
                _translated(location, lambda: os.lstat(f"{location}/{name}"))
            except FileNotFoundError:
                return False
            return True

        return [name for name in names if is_there(name)]

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        """Return the file's content."""

        def content() -> bytes:
            with os.fdopen(regular_file(location, limit=limit), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                content_bytes = file.read(size + 1)  # the limit may be larger than the file
                return (
                    content_bytes
                    if len(content_bytes) <= size
                    else content_bytes + file.read(limit + 1 - len(content_bytes))
                )

        return within(limit, _translated(location, content), location)

    def read_part(self, location: str, *, begin: int, size: int) -> bytes:
        """Return a part of the file."""

        def part() -> bytes:
            with os.fdopen(regular_file(location), "rb") as file:
                file.seek(begin)
                return file.read(size)

        return _translated(location, part)


def _entry(entry: os.DirEntry[str]) -> FileEntry | None:
    """Return an entry with what stat says of it. None if it is gone, or a link that leads nowhere, or in a circle."""
    try:
        status = entry.stat()
        if entry.is_symlink() and stat.S_ISDIR(status.st_mode) and _leads_back(entry.path, status):
            return None
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise
    return FileEntry(name=entry.name, size=status.st_size, modified=moment(status.st_mtime), is_folder=entry.is_dir())


def _leads_back(path: str, folder: os.stat_result) -> bool:
    """Whether a link to a folder leads to a folder on the way to it. To follow it would never end."""
    return any(os.path.samestat(above.stat(), folder) for above in Path(path).parents)


def _scanned(location: str, scan: Callable[[], _T]) -> _T:
    try:
        return _translated(location, scan)
    except FileNotFoundError:
        if os.path.exists(location):  # noqa: PTH110 - as above
            raise PermanentError(f"{location} is not a folder: put what is there out of the way") from None
        raise


def regular_file(location: str, *, limit: int | None = None) -> int:
    """Open a file of at most `limit` bytes. It does not wait for a pipe, opens no device and follows no link: a link
    could lead to any file of the daemon.

    Raises PermanentError for what is no file, TooLargeError, and the errors of the operating system.
    """
    descriptor = os.open(location, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    fits = limit is None or status.st_size <= limit
    if stat.S_ISREG(status.st_mode) and fits:
        return descriptor
    os.close(descriptor)
    if stat.S_ISREG(status.st_mode) and limit is not None:
        raise too_large(location, limit)
    raise PermanentError(f"{location} is {_KINDS.get(stat.S_IFMT(status.st_mode), 'something else')}, and no file")


_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}
_NO_FILE = (errno.ENXIO, errno.ENODEV)
_GONE = (errno.ENOENT, errno.ELOOP)
_NO_NAME = (errno.ENAMETOOLONG, errno.EINVAL)


def _looked_at(location: str) -> os.stat_result:
    return _translated(location, lambda: os.stat(location))  # noqa: PTH116 - the poll of every table: a Path costs more


def _translated(location: str, act: Callable[[], _T]) -> _T:
    """Call `act`, and translate the errors of the operating system."""
    try:
        return act()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(location) from error
    except OSError as error:
        if error.errno in _NO_FILE:
            raise PermanentError(f"{location} is a socket or a device, and no file") from error
        if error.errno == errno.ELOOP:
            raise PermanentError(f"{location} is a link, and no file, or lies behind links in a circle") from error
        if error.errno == errno.ENOMEM:  # the limit of a process that reads, and nothing about the file
            raise MemoryError from error
        if error.errno in _NO_NAME:
            raise PermanentError(f"{location[:200]} can be the name of no file: {error.strerror}") from error
        raise TemporaryError(f"{location} cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a NUL, or half a pair of surrogates
        raise PermanentError(f"{location[:200]!a} can be the name of no file") from error


# Files that appear with all their content, and never in the place of another.

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS, errno.EXDEV)
_FORBIDDEN = (errno.EACCES, errno.EROFS)


def create_whole(location: str, content: bytes) -> bool:
    """Let a file on a local or mounted disk appear with its content, as `OpenFolder.create_whole` does."""
    folder, _, name = location.rpartition("/")
    with open_folder(folder) as opened:
        return opened.create_whole(name, content)


@contextlib.contextmanager
def open_folder(path: str) -> Iterator[OpenFolder]:
    """Open a folder. Raises TemporaryError if there is none, or it cannot be opened."""
    try:
        number = os.open(path or "/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise TemporaryError(f"{path} cannot be opened: {error.strerror or error}") from error
    try:
        yield OpenFolder(number, path)
    finally:
        os.close(number)


class OpenFolder:
    """A folder that is open. What is written goes into it, wherever it is moved, and whatever gets its path."""

    def __init__(self, number: int, path: str) -> None:
        self._number = number
        self._path = path

    def create_whole(self, name: str, content: bytes) -> bool:
        """Let a file appear with its content. Return False if there is one by that name.

        The content is written under another name, which begins with a dot. Then the file gets its name by a hard link.
        Of several processes that give this name, one succeeds (`link(2)`). Raises PermanentError if the disk has no
        hard links, TemporaryError if nothing was done, and UnknownError if the answer to the link was lost.
        """
        with self._scratch(name, content) as scratch:
            return self._linked(scratch, name)

    def replace(self, name: str, content: bytes) -> None:
        """Write a file in the place of the one before. A kill leaves one of the two whole. Raises TemporaryError."""
        with self._scratch(name, content) as scratch:
            try:
                os.rename(scratch, name, src_dir_fd=self._number, dst_dir_fd=self._number)
            except OSError as error:
                raise TemporaryError(f"{self._path}/{name} cannot be written: {error.strerror or error}") from error

    @contextlib.contextmanager
    def _scratch(self, name: str, content: bytes) -> Iterator[str]:
        scratch = f".{name}.{uuid.uuid4().hex}.tmp"
        try:
            self._write(scratch, content)
            yield scratch
        finally:
            with contextlib.suppress(OSError):
                os.unlink(scratch, dir_fd=self._number)

    def _write(self, scratch: str, content: bytes) -> None:
        new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(scratch, new, 0o666, dir_fd=self._number), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            kind = PermanentError if error.errno in _FORBIDDEN else TemporaryError
            raise kind(f"{self._path}/{scratch} cannot be written: {error.strerror or error}") from error

    def _linked(self, scratch: str, name: str) -> bool:
        try:
            os.link(scratch, name, src_dir_fd=self._number, dst_dir_fd=self._number)
        except OSError as error:
            if self._is_one_file(scratch, name):  # the answer of a network disk to the first try was lost
                return True
            if isinstance(error, FileExistsError):
                return False
            location = f"{self._path}/{name}"
            if error.errno in _NO_LINKS:
                raise PermanentError(f"the file system of {location} has no hard links: {error.strerror}") from error
            raise UnknownError(f"{location} may have been written: {error.strerror or error}") from error
        with contextlib.suppress(OSError):  # it is there; the disk itself decides when it survives a loss of power
            os.fsync(self._number)
        return True

    def _is_one_file(self, first: str, second: str) -> bool:
        try:
            return os.path.samestat(os.stat(first, dir_fd=self._number), os.stat(second, dir_fd=self._number))
        except OSError:
            return False


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Let the names in a folder survive a loss of power. Raises OSError."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
