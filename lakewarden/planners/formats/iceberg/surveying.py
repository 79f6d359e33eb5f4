"""The survey of an Iceberg table: its files by the manifests of its snapshots, beside a listing of its folder."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from math import ceil

from lakewarden.planners.formats.iceberg.backlog.memo import ManifestPass
from lakewarden.planners.formats.iceberg.catalogs.hadoop import HadoopTables
from lakewarden.planners.formats.iceberg.catalogs.pointers import Pointer
from lakewarden.planners.formats.iceberg.deletion.expiry import expirable
from lakewarden.planners.formats.iceberg.format import ICEBERG, TIMEOUT
from lakewarden.planners.formats.iceberg.metadata.files import contents as contents_of
from lakewarden.planners.formats.iceberg.metadata.files import manifests_of, read_table
from lakewarden.planners.formats.iceberg.metadata.manifests import Manifest, read_paths
from lakewarden.planners.formats.iceberg.metadata.metadata import Snapshot, TableMetadata
from lakewarden.planners.formats.iceberg.metadata.spelling import Spelling, address_of
from lakewarden.planners.formats.iceberg.observing import observed
from lakewarden.planners.formats.iceberg.options.service_options import (
    ArchiveOptions,
    CleanOptions,
    CompactionOptions,
    OrphansOptions,
)
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.rewriting.thresholds import thresholds
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import FileEntry, Observation, Storage
from lakewarden.planners.surveying.contents import YOUNG, Amount, Contents, Rewrite, Sign, Survey
from lakewarden.planners.surveying.files import each_file, not_there
from lakewarden.planners.triggers import NumCommits, SmallFiles

_METADATA = re.compile(
    r"(?P<number>\d+)-[0-9a-f-]{36}.*\.metadata\.json(?:\.gz)?|v\d+(?:\.gz)?\.metadata\.json(?:\.gz)?"
)

_HISTORY_SECONDS = 30.0
"""So long the manifests of older snapshots are read at most."""


class IcebergSurveyor:
    """Surveys Iceberg tables, in catalogs and in folders."""

    @property
    def sign(self) -> Sign:
        """Return the folder of the metadata files."""
        return Sign(folder="metadata", file=_METADATA)

    @property
    def policies(self) -> Mapping[Service, Policy]:
        """Return the triggers of the example configuration."""
        return {
            Service.COMPACTION: Policy(trigger=SmallFiles(at_least=20), options=CompactionOptions()),
            Service.CLEAN: Policy(trigger=NumCommits(at_least=1), options=CleanOptions()),
            Service.ORPHANS: Policy(trigger=NumCommits(at_least=1), options=OrphansOptions()),
            Service.ARCHIVE: Policy(trigger=NumCommits(at_least=10), options=ArchiveOptions()),
        }

    def survey(self, table: Table, storage: Storage, *, now: datetime) -> Survey:
        """Return the survey. Raises what observing raises.

        It raises PermanentError if a manifest of the newest version cannot be read: what is not known is no zero.
        """
        notes: list[str] = []
        if table.catalog is None:
            pointer, guessed = _newest(table.location, storage)
            notes += guessed
        else:
            storage, pointer = ICEBERG.located(table, storage)
        observation = observed(table, storage, None, pointer=pointer, token="", now=now, timeout=TIMEOUT)
        metadata = read_table(pointer.metadata_file, storage)
        listed = _Listed(address_of(metadata.location), now)
        notes += [one for one in [each_file(listed.location, storage, listed.take)] if one is not None]
        contents = _contents(observation, metadata, listed, storage, notes)
        return Survey(view=observation.view, contents=contents)


def _newest(location: str, storage: Storage) -> tuple[Pointer, list[str]]:
    """Return the newest metadata file in a folder, with a note if a catalog may know better.

    Raises PermanentError if there is none.
    """
    try:
        return Pointer(token="", metadata_file=HadoopTables().metadata_file(location, storage)), []
    except PermanentError:
        folder = f"{location}/metadata"
        name = _newest_of_a_catalog(folder, storage)
        if name is None:
            raise
        note = f"it was found by its path: {name} is the newest file there, and its catalog may name another one"
        return Pointer(token="", metadata_file=f"{folder}/{name}"), [note]


def _newest_of_a_catalog(folder: str, storage: Storage) -> str | None:
    try:
        entries = storage.listing(folder)
    except FileNotFoundError:
        return None
    numbered = [
        (int(named["number"]), entry.modified, entry.name)
        for entry in entries
        if (named := _METADATA.fullmatch(entry.name)) is not None and named["number"] is not None
    ]
    return max(numbered)[2] if numbered else None


class _Listed:
    """The files in the table's folder, by the hash of their spelled paths: size, and whether one may be of a write in
    flight. Files of the folder `metadata` are summed up.
    """

    def __init__(self, location: str, now: datetime) -> None:
        self.location = location
        self._now = now
        self._spelling = Spelling()
        self.data: dict[int, tuple[int, bool]] = {}
        self.metadata = Amount()

    def take(self, path: str, entry: FileEntry) -> None:
        """Take a file."""
        if path.startswith("metadata/"):
            self.metadata = self.metadata.plus(Amount(1, entry.size))
            return
        key = hash(self._spelling(f"{self.location}/{path}"))
        self.data[key] = (entry.size, self._now - entry.modified < YOUNG)

    def key(self, path: str) -> int:
        """Return the hash of a path that metadata names."""
        return hash(self._spelling(path))

    def sum(self, keys: Iterable[int]) -> Amount:
        """Return the files with these keys that are there."""
        sizes = [self.data[key][0] for key in keys if key in self.data]
        return Amount(len(sizes), sum(sizes))


def _contents(
    observation: Observation,
    metadata: TableMetadata,
    listed: _Listed,
    storage: Storage,
    notes: list[str],
) -> Contents:
    view = observation.view
    reading = ManifestPass(storage=storage, metadata=metadata, remembered=observation.memo)
    held = reading.held(reading.manifests(metadata.current_snapshot))
    if reading.faults:
        raise PermanentError(f"the files of its newest version cannot be told: {reading.faults[0]}")
    rules = thresholds(CompactionOptions(), metadata.properties)
    live = small = deltas = Amount()
    for file in (file for digest in held.data.values() for file in digest.live()):
        live = live.plus(Amount(1, file.size))
        if file.size < rules.smallest:
            small = small.plus(Amount(1, file.size))
    for file in (file for digest in held.deletes for file in digest.live()):
        deltas = deltas.plus(Amount(1, file.size))
    old = unknown = None
    expiring = Amount()
    try:
        history = _History(metadata, listed, storage, until=time.monotonic() + _HISTORY_SECONDS)
        gone = expirable(metadata, CleanOptions(), IcebergTableOptions(), view.observed_at).ids
        needed, kept, known = history.needed_by_current(), history.needed(without=gone), history.needed(without=())
        old = listed.sum(known - needed)
        if (gap := not_there(len(needed), listed.sum(needed).files)) is not None:
            notes.append(gap)
        expiring = listed.sum(known - kept)
        unknown = listed.sum(key for key, (_, young) in listed.data.items() if key not in known and not young)
    except LakewardenError as unread:
        notes.append(f"the files of its older versions were not compared: {unread}")
    return Contents(
        live=live,
        small=small,
        deltas=deltas,
        old=old,
        unknown=unknown,
        metadata=listed.metadata,
        versions=len(metadata.snapshots),
        rewrites={Service.COMPACTION: _rewrite(view, rules.target)},
        deletes={Service.CLEAN: expiring, **({} if unknown is None else {Service.ORPHANS: unknown})},
        notes=tuple(notes),
    )


def _rewrite(view: TableView, target: int) -> Rewrite:
    """Return what the planner would rewrite. Each of its groups leaves a file at least."""
    backlog = view.backlogs.get(Service.COMPACTION)
    if backlog is None or not backlog.files:
        return Rewrite()
    size = backlog.bytes or 0
    after = max(backlog.file_groups or 1, ceil(size / target))
    return Rewrite(backlog.files, size, min(after, backlog.files))


class _History:
    """The data files that snapshots need, as hashes of their paths. A manifest is read once."""

    def __init__(self, metadata: TableMetadata, listed: _Listed, storage: Storage, *, until: float) -> None:
        self._metadata, self._listed, self._storage, self._until = metadata, listed, storage, until
        self._lists: dict[int, Sequence[Manifest]] = {}
        self._paths: dict[str, frozenset[int]] = {}

    def needed_by_current(self) -> set[int]:
        """Return the files of the current snapshot."""
        current = self._metadata.current_snapshot
        return set() if current is None else self._named([current])

    def needed(self, *, without: Collection[int]) -> set[int]:
        """Return the files of all snapshots but some."""
        return self._named([one for one in self._metadata.snapshots if one.id not in without])

    def _named(self, snapshots: Iterable[Snapshot]) -> set[int]:
        wanted: dict[str, None] = {}
        for snapshot in snapshots:
            if snapshot.id not in self._lists:
                self._in_time()
                self._lists[snapshot.id] = manifests_of(snapshot, self._storage)
            wanted.update(dict.fromkeys(one.path for one in self._lists[snapshot.id]))
        for path, content in contents_of([one for one in wanted if one not in self._paths], self._storage):
            self._in_time()
            self._paths[path] = frozenset(map(self._listed.key, read_paths(content, path)))
        return set().union(*(self._paths[path] for path in wanted))

    def _in_time(self) -> None:
        if time.monotonic() > self._until:
            raise LakewardenError(f"reading their manifests takes longer than {_HISTORY_SECONDS:.0f} s")


SURVEYOR = IcebergSurveyor()
