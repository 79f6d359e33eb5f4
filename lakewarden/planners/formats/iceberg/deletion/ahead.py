"""Whether somebody knows more of a table's folder than the catalog that we ask: another table there, or another catalog
that has newer versions of this one, as after a migration.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from lakewarden.planners.formats.iceberg.metadata.files import VanishedError, read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import BrokenOffError, TableMetadata
from lakewarden.planners.formats.iceberg.metadata.spelling import Spelling
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import MOST_FILES, Storage

METADATA_FILE = ".metadata.json"

_COMMIT_MAY_TAKE = timedelta(hours=1)  # from its metadata file to the catalog's answer, with all that is tried again


def refuse_if_ahead(path: str, metadata: TableMetadata, storage: Storage, *, age: timedelta) -> None:
    """Raise an error where the metadata file at `path`, which `metadata` does not know, shows that this is not all that
    is known of the folder: PermanentError where it is of another table or of a newer version, TemporaryError where that
    version is so young that it may be about to be committed. One that is not whole is nobody's version.
    """
    other = _read(path, storage)
    if other is None:
        return
    if other.uuid != metadata.uuid:
        raise PermanentError(
            f"{path} is of another table (table-uuid {other.uuid}): two tables share this folder, or an earlier one "
            "was dropped without its files. Move what is not this table's away"
        )
    if not _is_newer(other, metadata):
        return
    if age < _COMMIT_MAY_TAKE:
        raise TemporaryError(f"{path} is a newer version of the table, which may be about to be committed")
    raise _ahead(path)


def require_newest(metadata: TableMetadata, storage: Storage, *, now: datetime) -> None:
    """Raise PermanentError where another catalog has newer versions of this table: the snapshots that are about to
    expire here may stay there. Raises TemporaryError where the folder of its metadata cannot be listed whole.

    One listing; only what was written after the version that we know is read, and not what was so lately that its
    writer may be about to commit it, or may have failed: it then commits again, or is found by orphans.
    """
    folder, _, current = Spelling()(metadata.file).rpartition("/")
    written = {
        one.name: one.modified
        for one in storage.listing(folder, most=MOST_FILES)
        if METADATA_FILE in one.name and not one.is_folder
    }
    if current not in written:
        raise TemporaryError(f"the listing of {folder} does not show {current}, which the catalog names")
    for name, at in written.items():
        if written[current] < at < now - _COMMIT_MAY_TAKE:
            other = _read(f"{folder}/{name}", storage)
            if other is not None and other.uuid == metadata.uuid and _is_newer(other, metadata):
                raise _ahead(f"{folder}/{name}")


def _read(path: str, storage: Storage) -> TableMetadata | None:
    try:
        return read_table(path, storage)
    except (VanishedError, BrokenOffError):
        return None


def _is_newer(other: TableMetadata, metadata: TableMetadata) -> bool:
    return other.sequence > metadata.sequence or other.updated_at > metadata.updated_at


def _ahead(path: str) -> PermanentError:
    return PermanentError(
        f"{path} is a newer version of this table than the catalog has: another catalog holds it, too, and is ahead. "
        "Let one catalog alone have the table (CALL system.register_table, or drop it here without its files)"
    )
