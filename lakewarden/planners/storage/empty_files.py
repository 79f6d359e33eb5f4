"""Empty files that say something by being there, and by their time: how they appear, and how their time moves."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Protocol

from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.conditions import ObjectConditions
from lakewarden.planners.storage.local import LocalStorage, sync_folder
from lakewarden.planners.storage.objects import ObjectStorage


class RefusedPlaceError(PermanentError):
    """One place is refused: something else has its name, the folder is not ours, or a metastore does not take it.
    Another place may be taken.
    """


class EmptyFiles(Protocol):
    """Writes empty files below one location prefix. What is there is never emptied, and no folder is made.

    An act that is repeated, by the same process or by another, has the effect of one. Raises TemporaryError where it is
    not known what was done, and PermanentError where the store cannot do it.
    """

    def create(self, location: str) -> bool:
        """Let the file appear if there is none, and return whether it was made now.

        Raises FileNotFoundError without its folder, in a store that knows folders.
        """
        ...

    def renew(self, location: str) -> bool:
        """Set the time of the file to now, by the clock of its store; return False where there is none."""
        ...


def empty_files(location: str, storage: Storage) -> EmptyFiles | None:
    """Return what writes empty files into the storage of a canonical location; None where there is no way yet."""
    if isinstance(storage, LocalStorage):
        return LocalEmptyFiles()
    if location.startswith("s3://") and isinstance(storage, ObjectStorage):
        return ObjectEmptyFiles(storage)
    return None


class LocalEmptyFiles:
    """Local and mounted disks: the kernel makes a file for one of all who ask for it."""

    def create(self, location: str) -> bool:
        """Make the file if there is none: one call that succeeds once (`O_EXCL`)."""
        folder = os.path.dirname(location)  # noqa: PTH120 - a location, which is no Path elsewhere either
        try:
            file = os.open(location, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            with os.fdopen(file, "wb"), contextlib.suppress(PermissionError):
                if os.geteuid() == 0:  # a writer of another user must be able to renew it
                    owner = os.stat(folder)  # noqa: PTH116 - as above
                    os.fchown(file, owner.st_uid, owner.st_gid)
        except FileExistsError:
            return False
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _not_written(location, error) from error
        sync_folder(folder)
        return True

    def renew(self, location: str) -> bool:
        """Set the time of the file, without a look into it."""
        try:
            file = os.open(location, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _not_written(location, error) from error
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise RefusedPlaceError(f"{location} is not a file: put what is there out of the way")
            os.utime(file)
        except OSError as error:
            raise _not_written(location, error) from error
        finally:
            os.close(file)
        return True


class ObjectEmptyFiles:
    """Amazon S3, and what speaks its language: by the headers If-None-Match and If-Match of PUT."""

    def __init__(self, storage: ObjectStorage) -> None:
        self._conditions = ObjectConditions(storage)

    def create(self, location: str) -> bool:
        """Put the object if there is none. A store that ignores the condition is found out, and refused."""
        return self._conditions.create(location, b"") is not None

    def renew(self, location: str) -> bool:
        """Put the object anew, with what it holds."""
        file = self._conditions.versioned(location)
        return file is not None and self._conditions.replace(location, file.content, version=file.version) is not None


def _not_written(location: str, error: OSError) -> PermanentError | TemporaryError:
    why = f"{location} cannot be written: {error.strerror or error}"
    if error.errno in (errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG):
        return RefusedPlaceError(why)
    if error.errno == errno.EROFS:
        return PermanentError(why)
    return TemporaryError(why)
