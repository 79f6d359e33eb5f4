"""What snapshots have lost: their manifest lists, or manifests. Which files they need is then not known."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakewarden.planners.formats.iceberg.metadata.files import RESTORED, VanishedError, contents_left
from lakewarden.planners.formats.iceberg.metadata.manifests import read_manifest_list
from lakewarden.planners.formats.iceberg.metadata.metadata import (
    CorruptMetadataError,
    Snapshot,
    TableMetadata,
    UnusableFileError,
)
from lakewarden.planners.ports import Storage

_MOST = 10
"""A remedy has so many snapshots and names. When they are gone, the next look has the others."""

_DAMAGED = (
    f"if an engine reads the snapshot, Lakewarden is at fault, and the table needs no repair. Otherwise {RESTORED}"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LostManifest:
    """A manifest list, or a manifest, that `snapshots` need. It is gone, or damaged."""

    path: str
    is_list: bool
    is_damaged: bool
    snapshots: tuple[int, ...]

    def holder(self, metadata: TableMetadata) -> str:
        """Return the snapshot that has lost the file, with its names. If there are several, it is one with a name."""
        first = min(self.snapshots, key=lambda snapshot: not _names(metadata, [snapshot]))
        names = ", ".join(_names(metadata, [first]))
        return f"snapshot {first} ({names})" if names else f"snapshot {first}"

    @property
    def what(self) -> str:
        """Return what follows "has lost its manifest"."""
        others = len(self.snapshots) - 1
        also = f", and so {'has 1 other' if others == 1 else f'have {others} others'}" if others else ""
        return f"{' list' * self.is_list} {self.path}{', which is damaged' * self.is_damaged}{also}"

    def remedy(self, metadata: TableMetadata) -> str:
        """Return what to do. No snapshot is to expire if the table itself needs the file. If some have names, only they
        are to expire by hand: the rules of clean let the others expire when no reader needs them.

        Iceberg's own procedure expires the snapshot, and then fails because the file is gone (run with 1.11.0). By
        default it expires others, too.
        """
        restore = _DAMAGED if self.is_damaged else RESTORED
        if metadata.current in self.snapshots:
            return f"{restore}. The current snapshot needs it"
        named = [snapshot for snapshot in self.snapshots if _names(metadata, [snapshot])]
        ids = (named or self.snapshots)[:_MOST]
        names, listed = _names(metadata, ids), ", ".join(map(str, ids))
        first = f"remove {' and '.join(names)}, and then " if names else ""
        by_hand = f"by_id({listed})" if len(ids) == 1 else f"by_ids([{listed}])"
        return (
            f"{restore}. If that cannot be done, no engine can read the snapshot: {first}expire it by hand, with "
            f"pyiceberg (table.maintenance.expire_snapshots().{by_hand}.commit()), which deletes no file, or with "
            f"CALL system.expire_snapshots(older_than => TIMESTAMP '2000-01-01', snapshot_ids => ARRAY({listed})), "
            "which may fail for the same file after it has expired the snapshot. A clean that expires it by its rules "
            "needs no help"
        )


def _names(metadata: TableMetadata, snapshots: Sequence[int]) -> Sequence[str]:
    return [
        f"the {'branch' if ref.is_branch else 'tag'} {ref.name!r}" for ref in metadata.refs if ref.snapshot in snapshots
    ]


def refuse_lost(lost: Mapping[str, bool], kept: Sequence[Snapshot], metadata: TableMetadata, storage: Storage) -> None:
    """Raise an error that names the snapshots, of those that are `kept`, with the first of the `lost` manifests and
    lists. It is a CorruptMetadataError if that is damaged, and else a VanishedError. Their lists are read again.
    """
    for path, is_damaged in lost.items():
        lists = {snapshot.manifest_list: snapshot.id for snapshot in kept if snapshot.manifest_list is not None}
        needing = (lists[path],) if path in lists else tuple(needed_by(lists, storage, {}).get(path, ()))
        if not needing:
            raise VanishedError(f"no list that is there names {path} any more, so no file is deleted")
        file = LostManifest(path=path, is_list=path in lists, is_damaged=is_damaged, snapshots=needing)
        raise (CorruptMetadataError if is_damaged else VanishedError)(
            f"{file.holder(metadata)} is missing its manifest{file.what}: the files it needs are not known, so no file "
            f"is deleted; {file.remedy(metadata)}"
        )


def needed_by(lists: Mapping[str, int], storage: Storage, lost: dict[str, bool]) -> Mapping[str, Sequence[int]]:
    """Return the manifests that manifest lists name, each with the snapshots that have these `lists`. Lists that are
    gone or damaged are noted in `lost`. Raises PermanentError and TemporaryError.
    """
    needing: dict[str, list[int]] = {}
    for path, content in contents_left(lists, storage, lost):
        with noted(path, lost):
            for manifest in read_manifest_list(content, path=path):
                needing.setdefault(manifest.path, []).append(lists[path])
    return needing


@contextlib.contextmanager
def noted(path: str, lost: dict[str, bool]) -> Iterator[None]:
    """Note a damaged file in `lost`."""
    try:
        yield
    except UnusableFileError:
        raise
    except CorruptMetadataError:
        lost[path] = True
