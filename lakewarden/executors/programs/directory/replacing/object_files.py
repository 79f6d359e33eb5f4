"""Whole files of an object store: fetched, sent, copied within the store, and deleted. Each act may be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.ports import MOST_FILES, FileEntry
from lakewarden.planners.storage.objects import ObjectStorage

LARGEST_COPY = 2**30
"""So many bytes are copied within the store in the time of one request."""

_AT_ONCE = 8 * 2**20
_A_SECOND = timedelta(seconds=1)


class ObjectFiles:
    """The files below the locations of one object store. If one is missing, FileNotFoundError is raised. Any other
    failure raises TemporaryError.
    """

    def __init__(self, storage: ObjectStorage) -> None:
        self._storage = storage

    def files_in(self, location: str) -> Mapping[str, FileEntry]:
        """Return the files of a folder by their names, as they are now. A folder that is missing has none."""
        try:
            found = self._storage.listing(location, most=MOST_FILES)
        except FileNotFoundError:
            return {}
        return {one.name: one for one in found if not one.is_folder}

    def below(self, location: str) -> Mapping[str, FileEntry]:
        """Return the files of a folder and of all folders in it, by their paths below it."""
        found: dict[str, FileEntry] = {}
        try:
            self._storage.each_below(location, found.__setitem__)
        except FileNotFoundError:
            return {}
        return found

    def fetch(self, location: str, target: Path, *, version: str) -> None:
        """Write one version of a file to a place on this machine. Raises FileNotFoundError if it has another now."""

        def fetched(client: Any, path: str) -> None:
            got = client.get(path)
            if str(got.meta["e_tag"] or "") != version:
                raise FileNotFoundError(location)
            with target.open("xb") as file:
                for part in got.stream(min_chunk_size=_AT_ONCE):
                    file.write(part)
            if target.stat().st_size != got.meta["size"]:
                raise TemporaryError(f"{location} was not read to its end")

        target.unlink(missing_ok=True)
        self._storage.ask(location, fetched)

    def send(self, source: Path, location: str) -> None:
        """Write a file of this machine into the store, and read it again. Raises TemporaryError if it differs."""
        self._storage.ask(location, lambda client, path: client.put(path, source))

        def differs(client: Any, path: str) -> bool:
            with source.open("rb") as file:
                for part in client.get(path).stream(min_chunk_size=_AT_ONCE):
                    if file.read(len(part)) != bytes(part):
                        return True
                return file.read(1) != b""

        if self._storage.ask(location, differs):
            raise TemporaryError(f"{location} does not hold what was written")

    def put(self, location: str, content: bytes) -> None:
        """Write a small file."""
        self._storage.ask(location, lambda client, path: client.put(path, content))

    def copy(self, source: str, target: str) -> None:
        """Copy a file within its bucket. What is at the target is replaced."""
        host, _, goal = target.partition("://")[2].partition("/")
        if host != source.partition("://")[2].partition("/")[0]:
            raise ValueError(f"{source} and {target} are in two buckets")
        self._storage.ask(source, lambda client, path: client.copy(path, goal))

    def delete_seen(self, location: str, seen: FileEntry) -> bool:
        """Delete a file if it is the one that a listing has shown. Return False if it is gone, or is another one."""
        try:
            found = self._storage.ask(location, lambda client, path: client.head(path))
        except FileNotFoundError:
            return False
        same_time = abs(found["last_modified"] - seen.modified) < _A_SECOND  # only a listing tells milliseconds
        if str(found["e_tag"] or "") != seen.version or found["size"] != seen.size or not same_time:
            return False
        self.delete(location)
        return True

    def delete(self, location: str) -> None:
        """Delete a file. One that is missing is deleted."""
        try:
            self._storage.ask(location, lambda client, path: client.delete(path))
        except FileNotFoundError:
            return
