"""Small files that are written on a condition. They keep two daemons apart that share nothing but a table."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.ports import NoConditionsError, Versioned
from lakewarden.planners.storage.content import moment
from lakewarden.planners.storage.local import regular_file, sync_folder
from lakewarden.planners.storage.objects import ObjectStorage, said

_T = TypeVar("_T")

LARGEST = 64 * 2**10
"""The most bytes that are read of a file. A larger one was not written by Lakewarden."""

_LOCK_SECONDS = 1.0
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EINVAL)


class LocalConditions:
    """Conditional writes on local disks, and on network disks with locks that hold between machines. Every write takes
    a lock on a file beside, and replaces the whole file. A version is a digest of the content.
    """

    def versioned(self, location: str) -> Versioned | None:
        """Return the file. It needs no lock, because the file is only ever replaced as a whole."""
        try:
            with os.fdopen(regular_file(location), "rb") as file:
                content = file.read(LARGEST)
                written = os.fstat(file.fileno()).st_mtime
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermanentError as error:
            raise TemporaryError(f"{error}: remove it") from error
        except OSError as error:
            raise TemporaryError(f"{location} cannot be read: {error.strerror or error}") from error
        return Versioned(content=content, version=_digest(content), modified=moment(written))

    def create(self, location: str, content: bytes) -> Versioned | None:
        """Write the file if there is none."""
        with _translated(location), contextlib.suppress(FileExistsError):
            Path(location).parent.mkdir()
        return self._if(location, lambda file: file is None, lambda: _appear(location, content))

    def replace(self, location: str, content: bytes, *, version: str) -> Versioned | None:
        """Write the file if it still has this version."""
        return self._if(location, lambda file: _is_of(file, version), lambda: _appear(location, content))

    def delete(self, location: str, *, version: str) -> bool:
        """Delete the file if it still has this version."""

        def delete() -> bool:
            Path(location).unlink()
            sync_folder(Path(location).parent)
            return True

        return self._if(location, lambda file: _is_of(file, version), delete) or False

    def _if(self, location: str, holds: Callable[[Versioned | None], bool], act: Callable[[], _T]) -> _T | None:
        """Call `act` under the lock if the condition holds of the file."""
        if not Path(location).parent.is_dir():
            if Path(location).parent.parent.is_dir():
                return None  # no file was ever written there
            raise FileNotFoundError(location)
        with _translated(location), _locked(f"{location}.lock"):
            return act() if holds(self.versioned(location)) else None


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Hold the lock. Raises TemporaryError if another process, perhaps a frozen one, holds it for long."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _lock(file, path)
        yield
    finally:
        os.close(file)  # which also unlocks


def _lock(file: int, path: str) -> None:
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise TemporaryError(f"{path} is locked by another process") from None
            time.sleep(0.005)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                raise NoConditionsError(f"the file system of {path} has no file locks: {error.strerror}") from error
            raise
        else:
            return


@contextlib.contextmanager
def _translated(location: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise TemporaryError(f"{location} cannot be written: {error.strerror or error}") from error


def _appear(location: str, content: bytes) -> Versioned:
    """Replace the file as a whole, so that the new one survives a loss of power."""
    scratch = Path(f"{location}.{uuid.uuid4().hex}")
    try:
        with scratch.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            written = os.fstat(file.fileno()).st_mtime
        scratch.replace(location)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise
    sync_folder(scratch.parent)
    return Versioned(content=content, version=_digest(content), modified=moment(written))


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _is_of(file: Versioned | None, version: str) -> bool:
    return file is not None and file.version == version


# Conditional writes to an object store. They use the headers If-None-Match and If-Match of PUT, and no other request.

_Mode = Literal["create"] | dict[str, str]
_NO_VERSION = '"00000000000000000000000000000000"'
_GONE = b"deleted "


class ObjectConditions:
    """Conditional writes to Amazon S3 and compatible stores. A version is an ETag.

    To delete a file, a mark is written in its place, on the same condition as any other content. Few stores have a
    condition for DELETE, and obstore has none. Each mark is different, so no version of a file occurs twice. If several
    processes race, one of them wins, because each change of the file is one conditional PUT.

    Other stores may ignore a header that they do not know. So before the first file is trusted, a test proves that the
    store obeys the conditions.
    """

    def __init__(self, storage: ObjectStorage) -> None:
        self._storage = storage
        self._proved = False

    def versioned(self, location: str) -> Versioned | None:
        """Return the file. None if there is none."""
        file = self._read(location)
        return None if file is None or file.content.startswith(_GONE) else file

    def create(self, location: str, content: bytes) -> Versioned | None:
        """Write the file if there is none."""
        made = self._put(location, content, "create")
        if made is None:
            file = self._read(location)
            if file is not None and file.content.startswith(_GONE):
                made = self._put(location, content, {"e_tag": file.version})
        if made is not None and not self._proved:
            self._prove(location, content)
        return made

    def replace(self, location: str, content: bytes, *, version: str) -> Versioned | None:
        """Write the file if it still has this version."""
        if not self._proved:
            self._prove(location, content)
        return self._put(location, content, {"e_tag": version})

    def delete(self, location: str, *, version: str) -> bool:
        """Delete the file if it still has this version."""
        return self.replace(location, _GONE + uuid.uuid4().hex.encode(), version=version) is not None

    def _read(self, location: str) -> Versioned | None:

        def got(client: Any, path: str) -> Versioned:
            answer = client.get(path)
            content = b"" if answer.meta["size"] > LARGEST else answer.bytes().to_bytes()
            return Versioned(content=content, version=answer.meta["e_tag"], modified=answer.meta["last_modified"])

        try:
            return self._storage.ask(location, got)
        except FileNotFoundError:
            return None

    def _put(self, location: str, content: bytes, mode: _Mode) -> Versioned | None:
        """Return the file if it was written. None if the condition did not hold.

        The file itself is read whatever the answer was. If an answer is lost, the client tries again. Then its own
        first try may be the one that was written.
        """
        try:
            self._accepted(location, content, mode)
        except TemporaryError as error:
            lost: LakewardenError | None = error
        else:
            lost = None
        file = self._read(location)
        if file is not None and file.content == content:
            return file
        if lost is not None:
            raise TemporaryError(f"it is not known whether {location} was written: {lost}") from lost
        return None

    def _accepted(self, location: str, content: bytes, mode: _Mode) -> bool:
        """Write on a condition. Return whether it held."""

        def put(client: Any, path: str) -> bool:
            from obstore import exceptions  # noqa: PLC0415 - an optional package

            try:
                client.put(path, content, mode=mode)
            except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
                return False
            except (exceptions.NotSupportedError, NotImplementedError) as error:
                raise NoConditionsError(
                    f"the store of {location} knows no conditional writes: {said(error)}"
                ) from error
            except exceptions.BaseError as error:
                if "status code: 501" in said(error):
                    raise NoConditionsError(f"the store of {location} knows no conditional writes") from error
                raise
            return True

        try:
            return self._storage.ask(location, put)
        except FileNotFoundError:  # no version is equal to that of a missing file
            return False

    def _prove(self, location: str, content: bytes) -> None:
        """Raise NoConditionsError unless the store refuses both writes that it must refuse. The existing file stays as
        it is.
        """
        stale: _Mode = {"e_tag": _NO_VERSION}
        if self._accepted(location, content, stale) or self._accepted(location, content, "create"):
            self._storage.ask(location, lambda client, path: client.delete(path))
            raise NoConditionsError(f"the store of {location} takes no notice of If-Match or If-None-Match")
        self._proved = True
