"""Files that appear with all their content, and never in the place of another."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator

from lakewarden.planners.model.errors import PermanentError, TemporaryError, UnknownError

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

    def _is_one_file(self, one: str, other: str) -> bool:
        try:
            return os.path.samestat(os.stat(one, dir_fd=self._number), os.stat(other, dir_fd=self._number))
        except OSError:
            return False


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Let the names in a folder survive a loss of power. Raises OSError."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
