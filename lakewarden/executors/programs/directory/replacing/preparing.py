"""One partition of an object store, from its small files to new ones in a folder that readers overlook."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakewarden.executors.programs.directory.replacing.act import Replacement, StoredFile
from lakewarden.executors.programs.directory.replacing.object_files import LARGEST_COPY, ObjectFiles
from lakewarden.executors.programs.directory.rewriting.partition import chosen, common_end, rewritten_as
from lakewarden.executors.programs.directory.rewriting.refused import NotRewrittenError
from lakewarden.planners.formats.directory.listing.names import REWRITTEN, EntryKind, is_hidden
from lakewarden.planners.formats.directory.options.compaction_options import CompactionOptions
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import FileEntry
from lakewarden.planners.settings import format_size, shown
from lakewarden.planners.storage.content import StoreRefusedError


@dataclass(frozen=True, kw_only=True, slots=True)
class Staging:
    """What all partitions of one act have in common: the session, the store, the folder of the act and its name, the
    options, what a name stands for, the name of the marker, and whether readers are led by a metastore.
    """

    session: Any
    files: ObjectFiles
    home: str
    sign: str
    options: CompactionOptions
    kinds: Callable[[str], EntryKind]
    marker: str
    by_metastore: bool


def staged(one: Staging, table: str, partition: str, folder: str) -> Replacement:
    """Rewrite the small files of a partition on this machine, compare both sides, and put the new ones into a folder of
    the act. Each name there has the sign of the act, but for the marker: any other file there is of a writer. Raises
    NotRewrittenError if the partition stays as it is.
    """
    place = f"{table}/{partition}"
    found = one.files.files_in(place)
    if any(not entry.version for entry in found.values()):
        raise PermanentError(f"the store of {place} gives its files no versions")
    small = chosen(found, one.kinds, one.options)
    _require_deletion(one, place)
    vouches = _vouches(found, one.kinds, one.marker)
    stay = found.keys() - set(small)
    led_to = sorted(name for name in stay - {one.marker} if one.by_metastore and not is_hidden(name))
    _refuse_large({name: found[name].size for name in led_to})
    target = f"{one.home}/{folder}"
    with tempfile.TemporaryDirectory(prefix="lakewarden-") as scratch:
        made = _rewritten(one, place, {name: found[name] for name in small}, Path(scratch))
        new = {file.name: file.stat().st_size for file in made}
        _refuse_large(new)
        if taken := new.keys() & found.keys():
            raise PermanentError(f"{place} already holds a file {min(taken)}")
        for file in made:
            one.files.send(file, f"{target}/{file.name}")
    for name in led_to:
        one.files.copy(f"{place}/{name}", f"{target}/stay-lakewarden-{one.sign}-{name}")
    if vouches:
        one.files.copy(f"{place}/{one.marker}", f"{target}/{one.marker}")
    return Replacement(
        partition=partition,
        folder=folder,
        old={name: _stored(found[name]) for name in small},
        new=new,
        stay={name: _stored(found[name]) for name in sorted(stay)},
        marker=one.marker if vouches else None,
    )


def _require_deletion(one: Staging, place: str) -> None:
    """Raise NotRewrittenError if the store lets us delete no file there: then readers would find rows twice. The file
    that is deleted is none. A bucket with versions keeps a mark of it.
    """
    try:
        one.files.delete(f"{place}/{REWRITTEN}{one.sign}-none")
    except StoreRefusedError as refused:
        raise NotRewrittenError(f"its files could not be deleted: {refused}") from refused


def _rewritten(one: Staging, place: str, small: Mapping[str, FileEntry], scratch: Path) -> list[Path]:
    end = common_end(list(small))
    (scratch / "in").mkdir()
    files = []
    for number, (name, entry) in enumerate(small.items()):
        files.append(scratch / "in" / f"f-{number:07d}{end}")
        one.files.fetch(f"{place}/{name}", files[-1], version=entry.version)
    return rewritten_as(one.session, files, scratch / "out", one.options, sign=one.sign, end=end)


def _vouches(found: Mapping[str, FileEntry], kinds: Callable[[str], EntryKind], marker: str) -> bool:
    """Whether there is a marker, and no data is newer. S3 counts whole seconds, and Flink writes its marker in the
    second of the last file. Nothing has changed since for longer than any job is restored.
    """
    data = [one.modified for name, one in found.items() if kinds(name) is EntryKind.DATA]
    return marker in found and bool(data) and max(data) <= found[marker].modified


def _refuse_large(sizes: Mapping[str, int]) -> None:
    for name, size in sizes.items():
        if size > LARGEST_COPY:
            raise NotRewrittenError(
                f"{shown(name)} has more than {format_size(LARGEST_COPY)}, which are not copied in one request"
            )


def _stored(entry: FileEntry) -> StoredFile:
    return StoredFile(size=entry.size, version=entry.version)
