"""Conditional writes to an object store. They use the headers If-None-Match and If-Match of PUT, and no other
request.
"""

from __future__ import annotations

import uuid
from typing import Any, Literal

from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.ports import NoConditionsError, Versioned
from lakewarden.planners.storage.conditions import LARGEST
from lakewarden.planners.storage.objects import ObjectStorage, said

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
        found = self._read(location)
        return None if found is None or found.content.startswith(_GONE) else found

    def create(self, location: str, content: bytes) -> Versioned | None:
        """Write the file if there is none."""
        made = self._put(location, content, "create")
        if made is None:
            found = self._read(location)
            if found is not None and found.content.startswith(_GONE):
                made = self._put(location, content, {"e_tag": found.version})
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
        found = self._read(location)
        if found is not None and found.content == content:
            return found
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
