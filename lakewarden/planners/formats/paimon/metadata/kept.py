"""The small files of a table, each decoded once: a listing tells which of them are still the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from lakewarden.planners.formats.paimon.metadata.files import LARGEST_JSON, contents
from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.ports import FileEntry, Storage
from lakewarden.planners.storage.content import too_large

_T = TypeVar("_T")

Remembered = Mapping[str, tuple[str, Any]]
"""What files said, by their locations, each with what the listing told of the file."""


class Kept:
    """One pass over folders of small files: what an earlier pass has decoded is not read again."""

    def __init__(self, storage: Storage, remembered: Remembered) -> None:
        self._storage, self._remembered = storage, remembered
        self.now: dict[str, tuple[str, Any]] = {}

    def parsed(
        self, folder: str, entries: Iterable[FileEntry], parse: Callable[[bytes, str], _T]
    ) -> Iterator[tuple[FileEntry, _T | LakewardenError]]:
        """Yield the entries of a folder, each with what `parse` makes of its content and its location, or with the
        error that came of it. Those that were read before come first.
        """
        missing: dict[str, FileEntry] = {}
        for entry in entries:
            file = f"{folder}/{entry.name}"
            known = self._remembered.get(file)
            if entry.size > LARGEST_JSON:
                yield entry, too_large(file, LARGEST_JSON)
            elif known is not None and known[0] == _stamp(entry):
                self.now[file] = known
                yield entry, known[1]
            else:
                missing[file] = entry
        for file, content in contents(missing, self._storage):
            entry = missing[file]
            found = content if isinstance(content, LakewardenError) else _parsed(parse, content, file)
            if not isinstance(found, LakewardenError):
                self.now[file] = (_stamp(entry), found)
            yield entry, found


def _parsed(parse: Callable[[bytes, str], _T], content: bytes, file: str) -> _T | LakewardenError:
    try:
        return parse(content, file)
    except LakewardenError as error:
        return error


def _stamp(entry: FileEntry) -> str:
    return f"{entry.size}.{entry.modified.timestamp()}.{entry.version}"
