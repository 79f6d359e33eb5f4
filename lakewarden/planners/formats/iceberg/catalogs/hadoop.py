"""Tables that are folders. The newest metadata file is the one with the highest number.

Source: `org.apache.iceberg.hadoop.HadoopTableOperations` of Iceberg 1.11 (`findVersion`, `refresh`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakewarden.planners.decoding.json_stream import counted
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import FileEntry, Storage
from lakewarden.planners.storage.content import FileTooLargeError

_HINT = "version-hint.text"
_HINT_BYTES = 64
_SPELLINGS = ("v{}.metadata.json", "v{}.gz.metadata.json", "v{}.metadata.json.gz")
"""Plain, compressed, and compressed as the first releases of Iceberg named it."""

_NUMBERED = re.compile(r"v([0-9]{1,18})(?:\.metadata\.json|\.gz\.metadata\.json|\.metadata\.json\.gz)")
_OF_A_CATALOG = re.compile(r"\d+-[0-9a-f-]{36}.*\.metadata\.json(\.gz)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Version:
    """The newest version that was found while the hint was `hint`."""

    hint: int
    number: int
    spelling: str

    def file(self, *, ahead: int = 0) -> str:
        return self.spelling.format(self.number + ahead)


class HadoopTables:
    """Finds metadata files in folders. It remembers how far the newest version is ahead of a stale hint. Any thread may
    use it.
    """

    def __init__(self) -> None:
        self._found: dict[str, _Version] = {}

    def metadata_file(self, folder: str, storage: Storage) -> str:
        """Return the newest metadata file of the table in `folder`. It takes two requests if the hint is right.

        A writer writes the hint after its commit. If the writer died, the hint is older than the commit. So the search
        begins at the version that the hint names. Raises PermanentError if there is no table.
        """
        metadata = f"{folder}/metadata"
        hint = _hinted(metadata, storage)
        start = None if hint is None else self._start(metadata, hint, storage)
        if start is None:
            self._found.pop(metadata, None)
            return f"{metadata}/{_highest(folder, metadata, storage)}"
        while _is_there(f"{metadata}/{start.file(ahead=1)}", storage):
            start = _Version(hint=start.hint, number=start.number + 1, spelling=start.spelling)
        self._found[metadata] = start
        return f"{metadata}/{start.file()}"

    def _start(self, metadata: str, hint: int, storage: Storage) -> _Version | None:
        """Return the newest version that is known to exist. None if the version of the hint does not exist."""
        version = self._found.get(metadata)
        if version is not None and version.hint == hint:
            as_hinted = version.number == hint
            if as_hinted or _is_there(f"{metadata}/{version.file()}", storage):
                return version
        for spelling in _SPELLINGS:
            if _is_there(f"{metadata}/{spelling.format(hint)}", storage):
                return _Version(hint=hint, number=hint, spelling=spelling)
        return None

    def below(self, folder: str, storage: Storage, namespace: str = "") -> Iterator[str]:
        """Yield the identifiers of the tables below a folder: the folders that have a folder `metadata`.

        Raises FileNotFoundError if `folder` does not exist.
        """
        for entry in storage.listing(folder):
            if entry.is_folder and not entry.name.startswith((".", "_")):
                yield from self._table_or_namespace(f"{folder}/{entry.name}", storage, f"{namespace}{entry.name}")

    def _table_or_namespace(self, folder: str, storage: Storage, identifier: str) -> Iterator[str]:
        try:
            entries = storage.listing(folder)
        except FileNotFoundError:
            return  # it has just been dropped, or is empty
        if any(entry.is_folder and entry.name == "metadata" for entry in entries):
            if "." in identifier:
                yield identifier
        else:
            yield from self.below(folder, storage, f"{identifier}.")


def _hinted(metadata: str, storage: Storage) -> int | None:
    """Return the version that the hint names; None where there is no hint that can be read."""
    try:
        text = storage.read(f"{metadata}/{_HINT}", limit=_HINT_BYTES).decode("ascii", "replace").strip()
    except (FileNotFoundError, FileTooLargeError):
        return None
    return counted(text)


def _highest(folder: str, metadata: str, storage: Storage) -> str:
    """Return the name of the metadata file with the highest number."""
    try:
        entries = storage.listing(metadata)
    except FileNotFoundError:
        raise PermanentError(f"there is no Iceberg table at {folder}: it has no folder metadata") from None
    numbered = [(int(match[1]), entry.name) for entry in entries if (match := _NUMBERED.fullmatch(entry.name))]
    if not numbered:
        raise PermanentError(f"there is no Iceberg table of a Hadoop catalog at {folder}: {_instead(entries)}")
    return max(numbered)[1]


def _instead(entries: Sequence[FileEntry]) -> str:
    if any(_OF_A_CATALOG.fullmatch(entry.name) for entry in entries):
        return "a catalog knows its newest version; register it as catalog://<name>/<namespace>.<table>"
    return "its folder metadata holds no vN.metadata.json"


def _is_there(file: str, storage: Storage) -> bool:
    """Whether the file exists. At most one byte of it is read."""
    try:
        storage.read(file, limit=0)
    except FileNotFoundError:
        return False
    except FileTooLargeError:
        return True
    return True
