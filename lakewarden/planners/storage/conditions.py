"""Small files that are written on a condition: what keeps two daemons apart that share nothing but a table."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, TypeVar

from fsspec.asyn import sync

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.ports import NoConditionsError, Versioned
from lakewarden.planners.storage.content import moment
from lakewarden.planners.storage.remote import FsspecStorage

_T = TypeVar("_T")

_LARGEST = 64 * 2**10
"""More of a file is not read: it is none that was written here."""

_LOCK_SECONDS = 1.0
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EINVAL)


class LocalConditions:
    """Local disks, and network disks whose locks hold between machines: every write is made under a lock on a file
    beside, and appears as a whole. A version is a digest of the content.
    """

    def versioned(self, location: str) -> Versioned | None:
        """Return the file as it is. No lock is needed: it is only ever replaced as a whole."""
        try:
            with Path(location).open("rb") as file:
                content = file.read(_LARGEST)
                written = os.fstat(file.fileno()).st_mtime
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise TemporaryError(f"{location} cannot be read: {error.strerror or error}") from error
        return Versioned(content=content, version=_digest(content), modified=moment(written))

    def create(self, location: str, content: bytes) -> Versioned | None:
        """Write the file if there is none."""
        with _translated(location), contextlib.suppress(FileExistsError):
            Path(location).parent.mkdir()
        return self._if(location, lambda found: found is None, lambda: _appear(location, content))

    def replace(self, location: str, content: bytes, *, version: str) -> Versioned | None:
        """Write the file if it is still of this version."""
        return self._if(location, lambda found: _is_of(found, version), lambda: _appear(location, content))

    def delete(self, location: str, *, version: str) -> bool:
        """Delete the file if it is still of this version."""

        def delete() -> bool:
            Path(location).unlink()
            _sync(Path(location).parent)
            return True

        return self._if(location, lambda found: _is_of(found, version), delete) or False

    def _if(self, location: str, holds: Callable[[Versioned | None], bool], act: Callable[[], _T]) -> _T | None:
        """Do `act` if the condition holds of the file as it is, with everybody else locked out."""
        if not Path(location).parent.is_dir():
            if Path(location).parent.parent.is_dir():
                return None  # nobody has ever written there
            raise FileNotFoundError(location)
        with _translated(location), _locked(f"{location}.lock"):
            return act() if holds(self.versioned(location)) else None


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Hold the lock. Raises TemporaryError where somebody else has it for long: perhaps a process that is frozen."""
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
    """Let a whole file appear, in place of the one before, that outlives a loss of power."""
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
    _sync(scratch.parent)
    return Versioned(content=content, version=_digest(content), modified=moment(written))


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _is_of(found: Versioned | None, version: str) -> bool:
    return found is not None and found.version == version


class S3Conditions:
    """Amazon S3, and what speaks its language: by the headers If-None-Match and If-Match. A version is an ETag.

    Stores of other makes may ignore a header that they do not know, so before the first file is trusted it is proved
    that this one does not.
    """

    def __init__(self, storage: FsspecStorage) -> None:
        self._storage = storage
        self._proved = False

    def versioned(self, location: str) -> Versioned | None:
        """Return the file as it is."""
        try:
            return self._storage.ask(location, lambda driver, patience: _got(driver, location, patience))
        except FileNotFoundError:
            return None

    def create(self, location: str, content: bytes) -> Versioned | None:
        """Write the file if there is none."""
        made = self._put(location, content, IfNoneMatch="*")
        if made is not None and not self._proved:
            self._prove(location, content)
        return made

    def replace(self, location: str, content: bytes, *, version: str) -> Versioned | None:
        """Write the file if it is still of this version."""
        if not self._proved:
            self._prove(location, content)
        return self._put(location, content, IfMatch=version)

    def delete(self, location: str, *, version: str) -> bool:
        """Delete the file if it is still of this version."""
        return self._on_condition("delete_object", location, IfMatch=version) is not None

    def _put(self, location: str, content: bytes, **condition: str) -> Versioned | None:
        answer = self._on_condition("put_object", location, Body=content, **condition)
        if answer is not None:
            written = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
            return Versioned(content=content, version=answer["ETag"], modified=written.astimezone(UTC))
        # The driver tries again by itself where an answer is lost: then it was our own first try that won.
        found = self.versioned(location)
        return found if found is not None and found.content == content else None

    def _on_condition(self, method: str, location: str, **request: Any) -> dict[str, Any] | None:
        """Return the answer to a request; None where its condition did not hold."""

        def request_it(driver: Any, patience: dict[str, float]) -> dict[str, Any] | None:
            bucket, key, _ = driver.split_path(location)
            try:
                answer: dict[str, Any] = driver.call_s3(method, Bucket=bucket, Key=key, **request, **patience)
            except FileNotFoundError:
                return None
            except OSError as error:
                if _code(error) in _UNMET:
                    return None
                if _code(error) == "NotImplemented":
                    raise NoConditionsError(f"the store of {location} knows no conditional writes") from error
                raise
            return answer

        return self._storage.ask(location, request_it)

    def _prove(self, location: str, content: bytes) -> None:
        """Raise NoConditionsError unless the store refuses what it must: then the file that is there stays as it is."""
        kept = (
            self._on_condition("put_object", location, Body=content, IfMatch=_NO_VERSION) is None
            and self._on_condition("delete_object", location, IfMatch=_NO_VERSION) is None
            and self._on_condition("put_object", location, Body=content, IfNoneMatch="*") is None
        )
        if not kept:
            self._on_condition("delete_object", location)
            raise NoConditionsError(f"the store of {location} takes no notice of If-Match or If-None-Match")
        self._proved = True


_UNMET = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
_NO_VERSION = '"00000000000000000000000000000000"'


def _got(driver: Any, location: str, patience: dict[str, float]) -> Versioned:
    bucket, key, _ = driver.split_path(location)

    async def get() -> Versioned:
        answer = await driver._call_s3("get_object", Bucket=bucket, Key=key)  # noqa: SLF001 - the body is read where it comes
        async with answer["Body"] as body:
            content = await body.read(_LARGEST)
        return Versioned(content=content, version=answer["ETag"], modified=answer["LastModified"].astimezone(UTC))

    got: Versioned = sync(driver.loop, get, **patience)
    return got


def _code(error: OSError) -> str:
    """Return what S3 calls the error."""
    response = getattr(error.__cause__, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))
