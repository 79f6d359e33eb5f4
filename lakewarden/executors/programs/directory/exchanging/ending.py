"""An act on the folder of a partition, and its end from whatever state it is in: the same for a run that goes on and
for one that was killed. A deletion is an exchange for nothing.

    staged, not exchanged      the new folder is removed
    staged, exchanged          the old files are as they were: published. Else both folders go back to their places
    published                  the old files are deleted, one by one, by the names and numbers in the journal

What a writer has put into the old folder meanwhile moves to the partition, and is never deleted.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Mapping

import structlog

from lakewarden.executors.points import Point
from lakewarden.executors.programs.directory.exchanging import record as records
from lakewarden.executors.programs.directory.exchanging.record import ExchangeProgress, ExchangeRecord
from lakewarden.executors.programs.directory.exchanging.renames import (
    Entry,
    NoFileError,
    entries,
    exchange,
    is_of_one_place,
    move,
    sync_folder,
)
from lakewarden.executors.programs.directory.partition_list import PartitionList
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.printable import printable
from lakewarden.planners.storage.empty_files import RefusedPlaceError

log = structlog.get_logger(__name__)

STAGED_FOLDER = "new"
"""The folder of an exchange that holds the new files before it, and the old ones after it."""

_MOST_LOOKS = 100

Reach = Callable[[Point], None]

Relist = Callable[[str], None]
"""Puts a partition, by its path below the table, into the list of the metastore."""


def end_exchange(table: str, home: str, reach: Reach = lambda _: None, *, relist: Relist = lambda _: None) -> bool:
    """End the exchange that lies in `home`, and return whether the partition has the new files now.

    `relist` puts a partition that is not deleted back into the list of its metastore.
    Raises PermanentError where an operator has to look. Nothing is lost then: all files are in the partition or in
    `home`.
    """
    record = records.read(home)
    if record is None:
        _remove(home)
        return False
    place, staged = f"{table}/{record.partition}", f"{home}/{STAGED_FOLDER}"
    try:
        published = _decided(place, staged, home, record, reach)
    except NoFileError as error:
        raise PermanentError(f"{error}: move it into {place} and let the next run go on") from error
    except FileNotFoundError as gone:
        raise PermanentError(f"{gone.filename} is missing: put {place} back, or move {home} away") from gone
    if record.is_drop and record.listed and not published:
        relist(record.partition)
    _remove(home)
    return published


def _decided(place: str, staged: str, home: str, record: ExchangeRecord, reach: Reach) -> bool:
    try:
        files = entries(staged)
    except FileNotFoundError:  # it was emptied before the kill
        return record.progress is ExchangeProgress.PUBLISHED
    if record.is_drop:
        return _dropped(place, staged, home, record, reach)
    if record.progress is ExchangeProgress.STAGED:
        if not _was_exchanged(record, files):
            _delete_new(staged, files, record)
            return False
        if (why := _why_not(record, files)) is not None:
            log.warning("exchange_taken_back", partition=printable(record.partition), reason=why)
            exchange(place, staged)
            _sync_both(place, staged)
            back = entries(staged)
            _move_late(place, staged, back, apart_from=record.new)
            _delete_new(staged, entries(staged), record)
            return False
        _move_late(place, staged, files, apart_from=record.old)
        records.write(home, record.model_copy(update={"progress": ExchangeProgress.PUBLISHED}))
        reach(Point.PUBLISHED)
    _delete_old(place, staged, record, reach)
    return True


def _dropped(place: str, staged: str, home: str, record: ExchangeRecord, reach: Reach) -> bool:
    """Delete a partition that was moved away, if it is as it was seen. Else put it back."""
    if record.progress is ExchangeProgress.STAGED:
        files = entries(staged)
        if files != record.old:
            log.warning("drop_taken_back", partition=printable(record.partition))
            _put_back(place, staged)
            return False
        records.write(home, record.model_copy(update={"progress": ExchangeProgress.PUBLISHED}))
        reach(Point.PUBLISHED)
    _delete_old(place, staged, record, reach)
    return True


def _put_back(place: str, staged: str) -> None:
    """Move a folder back to its place. If a writer has made that anew, its files and the old ones are together."""
    try:
        move(staged, place)
    except FileExistsError:
        _move_late(place, staged, entries(staged), apart_from={})
        os.rmdir(staged)  # noqa: PTH106 - a location, as all paths of this package


def _was_exchanged(record: ExchangeRecord, files: Mapping[str, Entry]) -> bool:
    """Whether the folder that held the new files holds the old ones now. Pure.

    New files have names that no other file has, and are deleted last. An empty folder has nothing left to exchange.
    """
    return bool(files) and record.made.isdisjoint(files)


def _why_not(record: ExchangeRecord, files: Mapping[str, Entry]) -> str | None:
    """Return why the old files are not those that were rewritten; None if they are. Pure."""
    for name, entry in record.old.items():
        if name not in files:
            return f"{printable(name)} was removed meanwhile"
        if files[name] != entry:
            return f"{printable(name)} was changed meanwhile"
    return None


def _move_late(place: str, staged: str, files: Mapping[str, Entry], *, apart_from: Mapping[str, Entry]) -> None:
    """Move what a writer has added to the folder that is no longer the partition."""
    late = sorted(files.keys() - apart_from.keys())
    if late and not os.path.isdir(place):  # noqa: PTH112 - a location, as all paths of this package
        os.mkdir(place)  # noqa: PTH102 - as above
    for name in late:
        try:
            move(f"{staged}/{name}", f"{place}/{name}")
        except FileExistsError as there:
            raise PermanentError(
                f"{place}/{name} and {staged}/{name} have the same name: rename one, and put it into {place}"
            ) from there
        log.info("late_file_moved", partition=place, file=printable(name))
    if late:
        sync_folder(place)


def _delete_new(staged: str, files: Mapping[str, Entry], record: ExchangeRecord) -> None:
    """Delete the new files: first those that are also in the partition, so that a kill leaves what tells them."""
    for name in sorted(files, key=lambda name: (name in record.made, name)):
        ours = record.new.get(name)
        if ours is None or files[name].inode != ours.inode or (name in record.made and files[name] != ours):
            raise PermanentError(f"{staged}/{name} is of no run of ours: move it away")
        os.unlink(f"{staged}/{name}")  # noqa: PTH108 - a location, as all paths of this package
    os.rmdir(staged)  # noqa: PTH106 - as above


def _delete_old(place: str, staged: str, record: ExchangeRecord, reach: Reach) -> None:
    """Delete the old files that the journal names. Another one is late: it moves into the partition, whenever it
    came.
    """
    for _ in range(_MOST_LOOKS):
        files = entries(staged)
        _move_late(place, staged, files, apart_from=record.old)
        for name in sorted(files.keys() & record.old.keys()):
            if files[name] != record.old[name]:
                raise PermanentError(f"{staged}/{name} has changed since it was rewritten: look at its rows")
            os.unlink(f"{staged}/{name}")  # noqa: PTH108 - a location, as all paths of this package
            reach(Point.DELETING)
        try:
            os.rmdir(staged)  # noqa: PTH106 - as above
        except OSError as filled:
            if filled.errno != errno.ENOTEMPTY:
                raise
        else:
            return
    raise TemporaryError(f"a writer keeps writing into {staged}")


def _sync_both(place: str, staged: str) -> None:
    """Let an act on the two folders survive a loss of power."""
    for path in (place, staged):
        sync_folder(os.path.dirname(path))  # noqa: PTH120 - as above


def _remove(home: str) -> None:
    """Remove the folder of an exchange that is over, or that never began: what lies in it is ours. Links in it are
    removed, and not followed.
    """
    shutil.rmtree(home)


# One act on the folder of a partition, with its journal: the same for an exchange and for a deletion.


def carried_out(
    record: ExchangeRecord,
    table: str,
    home: str,
    *,
    act: Callable[[str, str], None],
    reach: Reach,
    relist: Relist = lambda _: None,
) -> bool:
    """Write the journal, act, and end the exchange. Return whether the act stands.

    `act` takes the folder in `home` and the place of the partition. It is one act of the kernel. If the kernel refuses
    it at this place, or the metastore refuses the partition, it stays as it was, and the error is raised.
    """
    place, staged = f"{table}/{record.partition}", f"{home}/{STAGED_FOLDER}"
    records.write(home, record)
    reach(Point.PROPOSED)
    try:
        act(staged, place)
    except (OSError, RefusedPlaceError) as error:
        if isinstance(error, RefusedPlaceError) or is_of_one_place(error):
            end_exchange(table, home, reach, relist=relist)
        raise
    _sync_both(place, staged)
    reach(Point.EXCHANGED)
    return end_exchange(table, home, reach, relist=relist)


def drop(
    table: str,
    home: str,
    partition: str,
    *,
    run: str,
    old: Mapping[str, Entry],
    reach: Reach,
    listing: PartitionList | None = None,
) -> bool:
    """Delete a partition with exactly the files that were seen in it, and return whether it is gone. If a file has come
    or changed in the last moment, the folder is back at its place, and in the list of its metastore.

    The partition leaves the list first. So no reader is led to a folder that is gone.
    """
    listed = listing is not None and listing.holds(partition)
    os.mkdir(home)  # noqa: PTH102 - a location, as all paths of this package
    record = ExchangeRecord(
        run=run, partition=partition, progress=ExchangeProgress.STAGED, old=old, new={}, listed=listed
    )

    def act(staged: str, place: str) -> None:
        if listing is not None and listed:
            listing.drop(partition)
            reach(Point.DROPPED)
        move(place, staged)

    relist = (lambda _: None) if listing is None else listing.restore
    return carried_out(record, table, home, act=act, reach=reach, relist=relist)
