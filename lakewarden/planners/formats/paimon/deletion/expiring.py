"""Which files go with the snapshots that expire: those that only they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lakewarden.planners.formats.paimon.deletion.names import FileNames
from lakewarden.planners.formats.paimon.metadata.files import VanishedError
from lakewarden.planners.formats.paimon.metadata.references import what_names_it
from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot


@dataclass(frozen=True, kw_only=True, slots=True)
class Needed:
    """The data files that something needs that stays, by their names alone, and the other files that it has, by their
    paths below the table.
    """

    data: frozenset[str]
    metadata: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Expiring:
    """A snapshot that expires, the data files that go with it, and the other files in the order of their deletion."""

    snapshot: Snapshot
    data: frozenset[str]
    metadata: tuple[str, ...]


def needed_by(kept: Sequence[Snapshot], roots: Mapping[str, Snapshot], names: FileNames) -> Needed:
    """Return what the kept snapshots of the table need, the oldest first, and what tags and branches need, by their
    files.

    Of the snapshots between the first and the newest it is enough to know what they have added: what they need besides
    the first one has. Raises what reading raises: all of it must be read.
    """
    data, metadata = set[str](), set[str]()
    for one in {kept[0].id: kept[0], kept[-1].id: kept[-1]}.values():
        data |= names.live(one)
    for one in kept:
        data |= names.added(one) | names.changelog(one)
        metadata.update(names.metadata(one))
    for file, one in roots.items():
        try:
            data |= names.live(one) | _changelog_of(one, names)
            metadata.update(_metadata_of(one, names))
        except VanishedError as gone:
            raise VanishedError(f"{gone}. {what_names_it(file)}") from gone
    return Needed(data=frozenset(data), metadata=frozenset(metadata))


def expiring(gone: Sequence[Snapshot], kept: Sequence[Snapshot], needed: Needed, names: FileNames) -> list[Expiring]:
    """Return the snapshots that expire, the oldest first, each with its files.

    A snapshot takes along the data files that the next one has deleted, and its changelog. Its other files go with the
    last of the snapshots that has them. Of the oldest snapshots a killed run may have left nothing but their files:
    what cannot be named any more, that run has deleted.
    """
    if not gone:
        return []
    metadata = [_or_nothing(names, one) for one in gone]
    left = Counter(file for files in metadata for file in set(files))
    found = list[Expiring]()
    for one, after, files in zip(gone, [*gone[1:], kept[0]], metadata, strict=True):
        left.subtract(set(files))
        data = _gone_since(one, after, names) - needed.data
        own = tuple(file for file in files if not left[file] and file not in needed.metadata)
        found.append(Expiring(snapshot=one, data=frozenset(data), metadata=own))
    return found


def _gone_since(one: Snapshot, after: Snapshot, names: FileNames) -> set[str]:
    try:
        found = names.deleted(after)
    except VanishedError:
        found = set()
    try:
        return found | names.changelog(one)
    except VanishedError:
        return found


def _or_nothing(names: FileNames, snapshot: Snapshot) -> tuple[str, ...]:
    """Return the other files of a snapshot, as far as they can still be named."""
    try:
        return names.metadata(snapshot)
    except VanishedError:
        lists = (snapshot.base, snapshot.delta, snapshot.changelog, snapshot.index)
        return tuple(f"manifest/{name}" for name in lists if name is not None)


def _changelog_of(root: Snapshot, names: FileNames) -> set[str]:
    """Return the changelog of a tag. An expiry of Paimon's own deletes it although the tag names it."""
    try:
        return names.changelog(root)
    except VanishedError:
        return set()


def _metadata_of(root: Snapshot, names: FileNames) -> tuple[str, ...]:
    if root.changelog is None:
        return names.metadata(root)
    try:
        names.listed(root.changelog, None)
    except VanishedError:
        return names.metadata(replace(root, changelog=None))
    return names.metadata(root)
