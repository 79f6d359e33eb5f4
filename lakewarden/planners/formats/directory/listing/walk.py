"""The folders of a directory, listed one by one or, where the store can, all at once.

A folder is listed again only if its own time has moved, if it was young or in progress the last time, or if its store
keeps no time of folders. Between two looks at all folders only the warm ones are looked at: those that changed last,
and those above them.
"""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import blake2b

from lakewarden.planners.formats.directory.listing.folders import (
    EntryKind,
    Folder,
    FolderSum,
    may_be_of_a_table,
    table_in,
)
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import MOST_FILES, DeepListing, FileEntry, Storage

MOST_FOLDERS = 200_000
"""How many folders of one directory are taken in."""

DEEPEST = 16
"""How many levels: a link that leads back ends here."""

Kinds = Callable[[str], EntryKind]
"""What a name of a file or a folder stands for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Previous:
    """What the last look brought. `unchanged_before`, in seconds since the epoch: what changed earlier is not young."""

    folders: Mapping[str, Folder]
    unchanged_before: float
    tables: Mapping[str, str] = field(default_factory=dict)

    def holds(self, path: str, changed: float) -> Folder | None:
        """Return a folder that need not be listed again: nothing came or went since, and nothing in it can grow.

        In a store without folder times that is not known of any.
        """
        folder = self.folders.get(path)
        if folder is None or folder.staged or folder.staging or not changed or folder.changed != changed:
            return None
        return folder if folder.changed_at < self.unchanged_before else None


@dataclass(kw_only=True, slots=True)
class Walk:
    """One look at folders below a location. `digests` are of those that were listed in a store without folder times.
    A data file below `small_below` bytes is small. `tables` are the folders that are tables of other formats, in words.
    Neither they nor anything below them is among the folders.
    """

    location: str
    storage: Storage
    kinds: Kinds
    small_below: int = 0
    folders: dict[str, Folder] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)

    def all(self, previous: Previous | None) -> None:
        """Look at every folder. Raises FileNotFoundError without the location, PermanentError where it is too large."""
        if isinstance(self.storage, DeepListing):
            sums = _Sums(self.location, self.kinds, self.small_below)
            self.storage.each_below(self.location, sums.add)
            self.folders = sums.folders()
            for path, names in sums.suspects.items():
                self._leave_out_a_table(path, names)
            return
        self._walk({"": self._changed("")}, previous, warm=None)

    def warm(self, previous: Previous, warm: Collection[str]) -> None:
        """Look at the `warm` folders, and at those that are new in them. All others stay as they were."""
        self.folders, self.tables = dict(previous.folders), dict(previous.tables)
        begin = {path: self._changed(path) for path in warm if path == "" or path in previous.folders}
        self._walk(begin, previous, warm=begin.keys())

    def look_at(self, path: str) -> None:
        """Look at one folder alone. Raises FileNotFoundError where it is gone, or has become a table."""
        self._list(path, self._changed(path))
        if path in self.tables:
            raise FileNotFoundError(location_of(self.location, path))

    def _walk(self, begin: Mapping[str, float], previous: Previous | None, *, warm: Collection[str] | None) -> None:
        """Look at folders and at those in them; with `warm` of these only at those that are new."""
        left, listed, gone = dict(begin), dict[str, Collection[str]](), set[str]()
        while left:
            path, changed = left.popitem()
            folder = None if previous is None else previous.holds(path, changed)
            if folder is not None and (warm is not None or not folder.has_folders):
                self.folders[path] = folder
                continue
            try:
                below = listed[path] = self._list(path, changed)
            except FileNotFoundError:
                if not path:
                    raise
                gone.add(path)
                continue
            left |= {child: at for child, at in below.items() if warm is None or child not in self.folders}
        if warm is not None:
            self._forget(gone, listed)

    def _list(self, path: str, changed: float) -> Mapping[str, float]:
        """List one folder; return the folders of data in it with their times."""
        entries = self.storage.listing(location_of(self.location, path), most=MOST_FILES)
        if self._leave_out_a_table(path, [entry.name for entry in entries if entry.is_folder]):
            return {}
        tally, below = FolderSum(small_below=self.small_below), {}
        for entry in entries:
            kind = self.kinds(entry.name)
            if entry.is_folder:
                if kind is EntryKind.STAGED and isinstance(self.storage, DeepListing):
                    self._add_keys_below(tally, path, entry.name, self.storage)
                    continue
                tally.add_folder(entry.name, kind, written=entry.modified.timestamp())
                if kind is EntryKind.DATA:
                    below[posixpath.join(path, entry.name)] = entry.modified.timestamp()
            else:
                name = entry.name if changed else ""
                tally.add(kind, size=entry.size, written=entry.modified.timestamp(), name=name)
        self.folders[path] = tally.folder(changed=changed)
        if not changed:
            self.digests[path] = digest(entries)
        _refuse_too_much(self.location, path, len(self.folders))
        return below

    def _add_keys_below(self, tally: FolderSum, path: str, name: str, store: DeepListing) -> None:
        """Add what lies in a folder of parts, up to the first object with a byte. There may be nothing:
        SeaweedFS 4.48 still lists the `_temporary` of a job that has ended.
        """

        def add(_: str, entry: FileEntry) -> None:
            tally.add_key_below(name, EntryKind.STAGED, size=entry.size, written=entry.modified.timestamp())
            if entry.size > 0:
                raise StopIteration

        with contextlib.suppress(FileNotFoundError):
            store.each_below(location_of(self.location, posixpath.join(path, name)), add)

    def _leave_out_a_table(self, path: str, names: Collection[str]) -> bool:
        """Whether a folder is a table of another format, by the `names` of the folders in it. It is left out, with all
        below it. Raises PermanentError if it is the directory itself.
        """
        suspects = [name for name in names if may_be_of_a_table(name)]
        table = table_in(location_of(self.location, path), suspects, self.storage) if suspects else None
        if table is None:
            self.tables.pop(path, None)
            return False
        if not path:
            raise PermanentError(f"{self.location} is not a plain directory: it is {table}")
        self.tables[path] = table
        for inner in [folder for folder in self.folders if folder == path or path in above(folder)]:
            del self.folders[inner]
        return True

    def _changed(self, path: str) -> float:
        """Return a folder's own time; 0 where it is gone, or where the store keeps none."""
        return changed_of(location_of(self.location, path), self.storage) or 0.0

    def _forget(self, gone: Collection[str], listed: Mapping[str, Collection[str]]) -> None:
        """Leave out the folders that are gone, or that their parent no longer shows, and all below them."""
        lost = {path for path in self.folders if path and path not in listed.get(posixpath.dirname(path), (path,))}
        lost.update(gone)
        for path in [
            folder for folder in self.folders if lost and (folder in lost or not lost.isdisjoint(above(folder)))
        ]:
            del self.folders[path]


def location_of(location: str, path: str) -> str:
    """Return where a folder is."""
    return f"{location}/{path}" if path else location


def above(path: str) -> Iterator[str]:
    """Yield the folders above one, the nearest first, the table's own last."""
    while path:
        path = posixpath.dirname(path)
        yield path


def nearest(path: str, folders: Collection[str]) -> str:
    """Return a folder if it is known, or else the nearest known one above it. A listing of that shows what is new."""
    return next((folder for folder in (path, *above(path)) if folder in folders), "")


def changed_of(location: str, storage: Storage) -> float | None:
    """Return a folder's own time, in seconds since the epoch; None where it is gone, or the store keeps none."""
    try:
        changed = storage.changed_at(location)
    except FileNotFoundError:
        return None
    return None if changed is None else changed.timestamp()


def digest(entries: Collection[FileEntry]) -> str:
    """Return what tells one listing from another."""
    lines = sorted((entry.name, entry.size, entry.modified.timestamp(), entry.version) for entry in entries)
    return blake2b(repr(lines).encode(errors="surrogatepass"), digest_size=12).hexdigest()


def _refuse_too_much(location: str, path: str, count: int) -> None:
    if path.count("/") >= DEEPEST:
        raise PermanentError(f"{location} has folders more than {DEEPEST} levels deep, as in {path[:200]}")
    if count > MOST_FOLDERS:
        raise PermanentError(f"{location} has more than {MOST_FOLDERS} folders")


class _Sums:
    """Adds up the files of one listing of all below, in the order of their keys. A folder comes in one piece, but for
    what is below it. An empty file marks a folder in some stores: none that is empty counts as data. `suspects` are the
    folders that may be tables, with the names of the folders in them that say so.
    """

    def __init__(self, location: str, kinds: Kinds, small_below: int) -> None:
        self._location = location
        self._kinds = kinds
        self._small_below = small_below
        self._open: dict[str, FolderSum] = {"": self._new()}
        self._done: dict[str, Folder] = {}
        self.suspects: dict[str, set[str]] = {}

    def add(self, path: str, entry: FileEntry) -> None:
        """Add a file, by its path below the location."""
        folder, levels = "", path.split("/")[:-1]
        for level in levels:
            kind = self._kinds(level)
            if may_be_of_a_table(level):
                self.suspects.setdefault(folder, set()).add(level)
            if kind is not EntryKind.DATA:
                self._tally(folder).add_key_below(level, kind, size=entry.size, written=entry.modified.timestamp())
                return
            self._tally(folder).add_folder(level, kind)
            folder = posixpath.join(folder, level)
            _refuse_too_much(self._location, folder, len(self._done))
        kind = self._kinds(entry.name)
        if entry.size > 0 or kind is not EntryKind.DATA:
            self._tally(folder).add(kind, size=entry.size, written=entry.modified.timestamp())

    def _tally(self, folder: str) -> FolderSum:
        tally = self._open.get(folder)
        if tally is None:
            self._close(keep=folder)
            if folder in self._done:
                raise PermanentError(f"the store of {self._location} lists its files in no order")
            tally = self._open[folder] = self._new()
        return tally

    def _new(self) -> FolderSum:
        return FolderSum(small_below=self._small_below)

    def _close(self, keep: str) -> None:
        """Close the folders that no later key can lie in."""
        for folder in [name for name in self._open if name and not f"{keep}/".startswith(f"{name}/")]:
            self._done[folder] = self._open.pop(folder).folder()

    def folders(self) -> dict[str, Folder]:
        """Return the sums of all."""
        return self._done | {folder: tally.folder() for folder, tally in self._open.items()}


# Another look at single folders, right before something is said of them.

_FRESH = timedelta(seconds=1)
"""In a store without folder times a folder above many partitions is not listed again for each of them."""


class FreshListings:
    """Lists a partition anew each time. A folder above it is listed anew if its time has moved, or is not known."""

    def __init__(self, location: str, storage: Storage, kinds: Kinds, clock: Clock, *, small_below: int = 0) -> None:
        self._walk = Walk(location=location, storage=storage, kinds=kinds, small_below=small_below)
        self._storage = storage
        self._clock = clock
        self._looked_at: dict[str, float] = {}

    def folder(self, path: str) -> Folder:
        """Return a folder as it is now. Raises FileNotFoundError where it is gone."""
        self._walk.look_at(path)
        return self._walk.folders[path]

    def above(self, path: str) -> Iterator[Folder]:
        """Yield the folders above one, as they are now."""
        return map(self._fresh_folder, above(path))

    def _fresh_folder(self, path: str) -> Folder:
        folder, now = self._walk.folders.get(path), self._clock.monotonic()
        changed = changed_of(location_of(self._walk.location, path), self._storage)
        if folder is not None and folder.changed:
            fresh = changed == folder.changed
        else:
            fresh = folder is not None and now - self._looked_at[path] < _FRESH.total_seconds()
        if folder is not None and fresh:
            return folder
        self._looked_at[path] = now
        return self.folder(path)
