"""Conditional writes to an object store: by the headers If-None-Match and If-Match, of which PUT alone is asked."""

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
    """Amazon S3, and what speaks its language. A version is an ETag.

    A file is deleted by a mark in its place, which is written on the same condition as any other content: few stores
    know a condition of DELETE, and obstore knows none. Each mark is another, and so no version of a file comes twice.
    Of all who race one wins, because each change of the file is one conditional PUT.

    Stores of other makes may ignore a header that they do not know, so before the first file is trusted it is proved
    that this one does not.
    """

    def __init__(self, storage: ObjectStorage) -> None:
        self._storage = storage
        self._proved = False

    def versioned(self, location: str) -> Versioned | None:
        """Return the file as it is."""
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
        """Write the file if it is still of this version."""
        if not self._proved:
            self._prove(location, content)
        return self._put(location, content, {"e_tag": version})

    def delete(self, location: str, *, version: str) -> bool:
        """Delete the file if it is still of this version."""
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
        """Return the file if it has become what was to be written; None where the condition did not hold.

        Whatever the answer was, the file itself is asked: the client tries again where an answer is lost, and then it
        was our own first try that won.
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
        """Write on a condition, and return whether it held."""

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
        except FileNotFoundError:  # of what is gone no version holds
            return False

    def _prove(self, location: str, content: bytes) -> None:
        """Raise NoConditionsError unless the store refuses what it must: then the file that is there stays as it is."""
        stale: _Mode = {"e_tag": _NO_VERSION}
        if self._accepted(location, content, stale) or self._accepted(location, content, "create"):
            self._storage.ask(location, lambda client, path: client.delete(path))
            raise NoConditionsError(f"the store of {location} takes no notice of If-Match or If-None-Match")
        self._proved = True
