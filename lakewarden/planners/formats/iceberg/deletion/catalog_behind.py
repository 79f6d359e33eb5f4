"""Whether the table's folder shows more than the catalog knows. The folder may hold another table. Another catalog may
have newer versions of this one, as after a migration.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lakewarden.planners.formats.iceberg.metadata.files import VanishedError, manifests_of, missing, read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import BrokenOffError, CorruptMetadataError, TableMetadata
from lakewarden.planners.formats.iceberg.metadata.parsing import Spelling, address_of
from lakewarden.planners.model.errors import PermanentError, TemporaryError, YieldError
from lakewarden.planners.model.view import Blocker
from lakewarden.planners.ports import Storage

METADATA_FILE = ".metadata.json"

_NUMBER = re.compile(r"(v|)(\d{1,18})([-.])")
"""`v7.metadata.json` in a Hadoop catalog, `00007-<uuid>.metadata.json` in others."""

_AGAIN = timedelta(hours=6)
"""A listing of a folder with the metadata files of thousands of versions takes several requests."""

_COMMIT_MAY_TAKE = timedelta(hours=1)  # from its metadata file to the catalog's answer, with all retries
_AT_LEAST = timedelta(seconds=30)


def left_of_a_commit(
    path: str, metadata: TableMetadata, storage: Storage, *, age: timedelta, given_up_after: timedelta
) -> TableMetadata | None:
    """Return the metadata of the file at `path` if it is what is left of a commit that was given up. `metadata` does
    not know the file. The commit must follow this very version of the table, and the file must be older than
    `given_up_after`. None if the file is no version of the table, or an older one.

    Raises PermanentError if the file is of another table, or of a version that only another catalog can have. Raises
    YieldError if the file is so young that its commit may still come. A file that breaks off is no version.
    """
    other = _read(path, storage)
    if other is None:
        return None
    if other.uuid != metadata.uuid:
        raise PermanentError(
            f"{path} is of another table (table-uuid {other.uuid}): two tables share this folder, or an earlier one "
            "was dropped without its files. If a catalog has the other table, give one of the two a folder of its own; "
            "if none has it, move this file away"
        )
    if not _is_newer(other, metadata):
        return None
    if age < _COMMIT_MAY_TAKE:
        raise YieldError(
            f"{path} is a newer version of the table, which may be about to be committed: it is waited for until the "
            "table is newer, or the file is an hour old",
            # Most commits end within seconds, and the next commit makes the file old. Each run lists the whole folder.
            delay=min(_COMMIT_MAY_TAKE - age, max(age, _AT_LEAST)),
        )
    if age > given_up_after and _follows(other, metadata):
        return other
    raise _refused(_ahead(path, metadata, broken=""))


def require_newest(read: Callable[[], TableMetadata], storage: Storage, *, now: datetime) -> None:
    """Raise PermanentError if the folder of the metadata has a newer version of this table than the catalog names. A
    commit here would be beside it, and the newer version may need the snapshots that would expire.

    `read` asks the catalog. It is asked again before the refusal: a writer may have committed since, and a listing of
    many files takes a while. Raises TemporaryError if the folder cannot be listed whole.
    """
    metadata = read()
    written = _versions(metadata, storage)
    newer = _newer(metadata, written, storage, now=now)
    if newer is not None and (moved := read()).file != metadata.file:
        newer = _newer(moved, written, storage, now=now)
    if newer is not None:
        raise _refused(newer)


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionsSeen:
    """What is remembered of the versions of a table from one observation to the next: the `last` metadata file that its
    catalog named, the file that it `left` for an older one, when the folder was listed, and what blocks every service.
    """

    last: str = ""
    left: str = ""
    listed_at: datetime | None = None
    blocker: Blocker | None = None

    def looked(self, metadata: TableMetadata, storage: Storage, *, now: datetime) -> VersionsSeen:
        """List the folder if the pointer may have been set back, or if it is time to. If it cannot be listed whole,
        nothing new is known, and each run lists it again.

        In a table with the file names of Hadoop tables a search that begins at the hint finds the next version. Only if
        that one is missing, no search finds those after it.
        """
        left = self.last if self.last not in ("", metadata.file, *metadata.metadata_log) else self.left
        seen = replace(self, last=metadata.file, left=left)
        current = metadata.file.rpartition("/")[2]
        names = _NUMBER.match(current)
        has_hint = names is not None and bool(names[1])
        rests = self.listed_at is not None and now - self.listed_at < _AGAIN
        if rests and self.blocker is None and left == self.left and not has_hint:
            return seen
        with contextlib.suppress(TemporaryError):
            written = _versions(metadata, storage)
            if not has_hint:  # a writer may have committed the young ones since the catalog was asked
                named = {current, left.rpartition("/")[2]}
                written = {name: at for name, at in written.items() if name in named or at < now - _COMMIT_MAY_TAKE}
            is_found = has_hint and any(_versions_later(name, current) == 1 for name in written)
            blocker = None if is_found else _newer(metadata, written, storage, now=now, left=left)
            return replace(seen, left=left if blocker else "", listed_at=now, blocker=blocker)
        return seen


def _versions(metadata: TableMetadata, storage: Storage) -> Mapping[str, datetime]:
    """Return the metadata files beside a metadata file, each with the time of its last write. It takes one listing."""
    above, _, current = metadata.file.rpartition("/")
    folder = address_of(above)
    written = {
        entry.name: entry.modified
        for entry in storage.entries(folder)
        if METADATA_FILE in entry.name and not entry.name.startswith(".") and not entry.is_folder
    }
    if current not in written:
        raise TemporaryError(f"the listing of {folder} does not show {current}, which the catalog names")
    return written


def _newer(
    metadata: TableMetadata, written: Mapping[str, datetime], storage: Storage, *, now: datetime, left: str = ""
) -> Blocker | None:
    """Return what blocks every service if one of the files is a newer version of this table than the catalog names:
    another catalog has committed it, or the pointer was set back. It is the same if another catalog has committed twice
    beside the versions that this one knows.

    Only files that may be newer are read: those with a later number, whenever they were written, and those that were
    written later. The next version is left out for an hour, unless the catalog has named it and `left` it: its writer
    may be about to commit it. If that commit failed, the writer commits again, or orphans finds the file.
    """
    above, _, current = metadata.file.rpartition("/")
    folder, at_last, named = address_of(above), written.get(current, now), left.rpartition("/")[2]
    later = {name: _versions_later(name, current) or 0 for name in written}
    news = [
        name
        for name, at in written.items()
        if later[name] > 1 or (name == named and later[name] > 0) or at_last < at < now - _COMMIT_MAY_TAKE
    ]
    for name in sorted(news, key=lambda name: (later[name], written[name], name), reverse=True):
        try:
            other = _read(f"{folder}/{name}", storage)
        except CorruptMetadataError as wrong:
            return _ahead(f"{folder}/{name}", metadata, broken=str(wrong))
        if other is None or other.uuid != metadata.uuid:
            continue
        if later[name] > 1 or name == named or _is_newer(other, metadata):
            return _ahead(f"{folder}/{name}", metadata, broken=_why_unreadable(other, storage))
    return _another_line(written, metadata, folder, storage)


def _why_unreadable(version: TableMetadata, storage: Storage) -> str:
    """Return why no engine can read the current snapshot of a version. Empty if its manifests are there."""
    try:
        manifests = () if version.current_snapshot is None else manifests_of(version.current_snapshot, storage)
        lost = next(iter(missing([manifest.path for manifest in manifests], storage)), None)
    except (VanishedError, PermanentError) as wrong:
        return str(wrong)
    return "" if lost is None else f"its manifest {lost} is not there"


def _another_line(names: Iterable[str], metadata: TableMetadata, folder: str, storage: Storage) -> Blocker | None:
    """Return what blocks every service if a version that the metadata log does not have was made from another one that
    it does not have. A commit that failed leaves one version, and no other was made from that.
    """
    current, log = metadata.file.rpartition("/")[2], {path.rpartition("/")[2] for path in metadata.metadata_log}
    first = min((later for name in log if (later := _versions_later(name, current)) is not None), default=0)
    places = {name: _versions_later(name, current) for name in names if name not in log and name != current}
    unknown = {name: later for name, later in places.items() if later is not None and first < later <= 0}
    before = {later + 1 for later in unknown.values()}
    for name in (name for name, later in unknown.items() if later in before):
        other = _read(f"{folder}/{name}", storage)
        follows = other is not None and other.uuid == metadata.uuid and other.metadata_log[-1:]
        if follows and follows[0].rpartition("/")[2] in unknown:
            return Blocker(
                code="pointer_behind",
                reason=f"{folder}/{name} is a version of this table beside those that the catalog knows: another "
                "catalog, or another name, holds the table, too, and its versions may need the files that this one "
                "does not",
                remedy=f"let one catalog alone have the table; if none has that version, move {name} and "
                f"{follows[0].rpartition('/')[2]} away",
            )
    return None


def _versions_later(name: str, current: str) -> int | None:
    """Return by how many versions a file is later than another, according to their names. None if they do not tell."""
    match, current_match = _NUMBER.match(name), _NUMBER.match(current)
    if match is None or current_match is None or (match[1], match[3]) != (current_match[1], current_match[3]):
        return None
    return int(match[2]) - int(current_match[2])


def _read(path: str, storage: Storage) -> TableMetadata | None:
    try:
        return read_table(path, storage)
    except (VanishedError, BrokenOffError):
        return None


def _is_newer(other: TableMetadata, metadata: TableMetadata) -> bool:
    return other.sequence > metadata.sequence or other.updated_at > metadata.updated_at


def _follows(other: TableMetadata, metadata: TableMetadata) -> bool:
    """Whether a version was made from this one. The last entry of its metadata log is the version before it
    (`TableMetadata.previousFiles`).
    """
    spelled = Spelling()
    return bool(other.metadata_log) and spelled(other.metadata_log[-1]) == spelled(metadata.file)


def _ahead(path: str, metadata: TableMetadata, *, broken: str) -> Blocker:
    """Return the blocker for a newer version. There are two ways out, and the likely one comes first: a version that is
    `broken` was left on purpose.
    """
    folder, current = path.rpartition("/")[0], metadata.file.rpartition("/")[2]
    back = (
        f"if {current} is the right one, and no other catalog has the table, move {path.rpartition('/')[2]} and each "
        f"other version after {current} out of {folder}: what only they need is deleted later"
    )
    forth = (
        f"if {path} is the right one, let one catalog alone have the table, at that version (drop it here without its "
        "files, then CALL system.register_table; in a Hadoop catalog delete version-hint.text)"
    )
    if broken:
        return Blocker(
            code="pointer_behind",
            reason=f"{path} is a newer version of this table than {current}, which the catalog names, and cannot be "
            f"read ({broken}): the pointer was set back, or another catalog holds the table, too",
            remedy=f"{back}; {forth}, after what it lacks is restored",
        )
    return Blocker(
        code="pointer_behind",
        reason=f"{path} is a newer version of this table than {current}, which the catalog names: another catalog "
        "holds the table, too, and is ahead, or the pointer was set back (in a Hadoop catalog version-hint.text, with "
        "versions after it deleted)",
        remedy=f"{forth}; {back}",
    )


def _refused(newer: Blocker) -> PermanentError:
    return PermanentError(f"{newer.reason}; {newer.remedy}")
