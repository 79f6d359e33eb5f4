"""What a Paimon table knows: the names of all files that its snapshots, tags, branches and changelogs name."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from lakewarden.planners.formats.paimon.deletion.roots import Root, RootKind, all_roots, read_root
from lakewarden.planners.formats.paimon.metadata.files import (
    NewerVersionError,
    VanishedError,
    content_of,
    contents,
)
from lakewarden.planners.formats.paimon.metadata.history import what_names_it
from lakewarden.planners.formats.paimon.metadata.manifests import (
    ManifestMeta,
    read_index_names,
    read_manifest_list,
    read_named_files,
)
from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.ports import Storage

MOST = 5_000_000
"""So many names are held at a time: each is a number, with some 80 bytes."""

_LOOKS = 50


class KnownNames:
    """The names that a table has known since the first look. A name that was known once stays known.

    A name alone counts, whatever folder the file is in. Names are held as digests. If two names have the same digest,
    one known file makes the other one known.
    """

    def __init__(self, location: str, storage: Storage) -> None:
        self._location, self._storage = location, storage
        self._names: set[int] = set()
        self._roots: dict[str, str] = {}
        self._read: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return _digest(name) in self._names

    def __len__(self) -> int:
        """Return how many names are known."""
        return len(self._names)

    def look(self) -> None:
        """Read what was committed, tagged or branched since the last look, until a pass over all folders finds nothing
        new. So a snapshot that becomes a tag or a branch while it expires is not missed.

        Raises TemporaryError if the table does not come to rest, or if a file is gone that a snapshot, a tag or a
        branch names. Raises PermanentError for a file that is not understood.
        """
        gone: VanishedError | None = None
        for _ in range(_LOOKS):
            try:
                if not self._pass():
                    return
            except VanishedError as error:
                if gone is not None and str(gone) == str(error):
                    raise TemporaryError(str(error)) from error
                gone = error
        raise TemporaryError(f"{self._location} changes while it is read: its files are compared later")

    def _pass(self) -> bool:
        """Read the roots that are new, and return whether there were any."""
        new = [root for root in all_roots(self._location, self._storage) if self._roots.get(root.file) != root.stamp]
        for root in new:
            try:
                self._take(root)
            except VanishedError as gone:
                raise VanishedError(f"{gone}. {what_names_it(root.file)}") from gone
            self._roots[root.file] = root.stamp
        return bool(new)

    def _take(self, root: Root) -> None:
        snapshot = read_root(root, self._storage, what="snapshot, tag or changelog")
        if snapshot.unknown:
            raise NewerVersionError(
                f"{root.file} has fields that Lakewarden does not know ({', '.join(snapshot.unknown)}), and they may "
                "name files: upgrade Lakewarden"
            )
        whole = root.kind in (RootKind.SNAPSHOT, RootKind.TAG)
        self._list(snapshot.base, snapshot.base_size, whole=whole)
        self._list(snapshot.delta, snapshot.delta_size, whole=whole)
        if snapshot.changelog is not None:  # an expiry of Paimon's own deletes it although a tag names it
            self._list(snapshot.changelog, None, whole=root.kind is RootKind.SNAPSHOT)
        self._others(snapshot, whole=whole)

    def _others(self, snapshot: Snapshot, *, whole: bool) -> None:
        if snapshot.statistics is not None:
            self._add([snapshot.statistics])
        if snapshot.index is None or snapshot.index in self._read:
            return
        self._add([snapshot.index])
        file = self._file(snapshot.index)
        try:
            self._add(read_index_names(content_of(file, self._storage), file=file))
        except VanishedError:
            if whole:
                raise
        else:
            self._read.add(snapshot.index)

    def _list(self, name: str, size: int | None, *, whole: bool) -> None:
        """Add a manifest list with all that it names. Unless it must be `whole`, files that are gone name nothing."""
        if name in self._read:
            return
        self._add([name])
        file = self._file(name)
        try:
            listed = read_manifest_list(content_of(file, self._storage), file=file, size=size)
        except VanishedError:
            if whole:
                raise
            return
        if self._manifests(listed, whole=whole):
            self._read.add(name)

    def _manifests(self, listed: Iterable[ManifestMeta], *, whole: bool) -> bool:
        """Add manifests with the files that they name. Return whether all of them could be read."""
        metas = {self._file(meta.name): meta for meta in listed if meta.name not in self._read}
        self._add(meta.name for meta in metas.values())
        all_there = True
        for file, content in contents(metas, self._storage):
            if isinstance(content, VanishedError) and not whole:
                all_there = False
                continue
            if isinstance(content, LakewardenError):
                raise content
            for entry in read_named_files(content, metas[file], file=file):
                self._add(entry.names)
            self._read.add(metas[file].name)
        return all_there

    def _add(self, names: Iterable[str]) -> None:
        self._names.update(map(_digest, names))
        if len(self._names) > MOST:
            raise PermanentError(
                f"the metadata of {self._location} names more than {MOST} files, which is more than are compared at a "
                "time: keep fewer snapshots (clean), or merge small files (compaction)"
            )

    def _file(self, name: str) -> str:
        return f"{self._location}/manifest/{name}"


def _digest(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest(), "little")
