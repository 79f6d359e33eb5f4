"""The list of the files that a plan is going to delete: one line for each, and at the end their number. It may be long.
Only a part of it is in memory at a time.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator

from lakewarden.planners.formats.iceberg.deletion.reachable import DeletableFile, FileKind
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.ports import Storage

MOST_LISTED = 1_000_000
"""The most files that one run of orphans deletes. If there are more, the service is due again at once."""

_CHUNK = 2**20
_PART = 2**23
_END = "end"


class NotWholeError(TemporaryError):
    """The list of a plan is missing, or is not whole."""


def lines_of(files: Iterable[DeletableFile], written: Counter[FileKind]) -> Iterator[bytes]:
    """Yield the list of `files` in pieces, and count its files by kind in `written`."""
    gathered = bytearray()
    for file in files:
        gathered += json.dumps([file.kind.value, file.path]).encode() + b"\n"
        written[file.kind] += 1
        if len(gathered) >= _CHUNK:
            yield bytes(gathered)
            gathered.clear()
    yield bytes(gathered) + json.dumps([_END, written.total()]).encode()


def files_in(file: str, storage: Storage) -> Iterator[DeletableFile]:
    """Yield the files of the list in `file`. Raises NotWholeError, at the end at the latest, and TemporaryError."""
    named = 0
    try:
        for line in _lines_in(file, storage):
            kind, path = json.loads(line)
            if kind == _END:
                if path != named:
                    break
                return
            yield DeletableFile(FileKind(kind), str(path))
            named += 1
    except (FileNotFoundError, ValueError, TypeError) as wrong:
        raise NotWholeError(f"{file} is not there any more, or not whole") from wrong
    raise NotWholeError(f"{file} is not whole")


def _lines_in(file: str, storage: Storage) -> Iterator[bytes]:
    rest = b""
    for begin in itertools.count(0, _PART):
        part = storage.read_part(file, begin=begin, size=_PART)
        *lines, rest = (rest + part).split(b"\n")
        yield from lines
        if len(part) < _PART:
            yield rest
            return
        if len(rest) > _PART:
            raise ValueError("its lines have no end")
