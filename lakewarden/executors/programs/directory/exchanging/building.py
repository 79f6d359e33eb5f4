"""The folder that takes the place of a partition: the new files, and links to those that stay."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lakewarden.executors.programs.directory.exchanging.ending import STAGED_FOLDER, Reach, carried_out
from lakewarden.executors.programs.directory.exchanging.record import ExchangeProgress, ExchangeRecord
from lakewarden.executors.programs.directory.exchanging.renames import (
    Entry,
    NoFileError,
    entries,
    exchange,
    sync_file,
    sync_folder,
)
from lakewarden.planners.model.errors import PermanentError

_OF_USERS = ("user.", "system.posix_acl_access")
_TICK_NS = 1_000_000
"""A marker is newer than the data by at least this."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """One exchange that is prepared: its own folder, the table, and the partition below it with its files."""

    home: str
    table: str
    partition: str
    run: str
    old: Mapping[str, Entry]

    @property
    def place(self) -> str:
        """Where the partition is."""
        return f"{self.table}/{self.partition}"

    @property
    def staged(self) -> str:
        """Where the new folder is."""
        return f"{self.home}/{STAGED_FOLDER}"


def link(exchange: Exchange, names: Sequence[str], folder: str, *, end: str) -> list[Path]:
    """Link files of the partition into a new folder, under plain names, and return the links. So exactly these files
    are read, whatever becomes of their names. Raises FileNotFoundError and FileExistsError where one was replaced.
    """
    os.mkdir(folder)  # noqa: PTH102 - a location, as all paths of this package
    links = []
    for number, name in enumerate(names):
        place = f"{folder}/f-{number:07d}{end}"
        os.link(f"{exchange.place}/{name}", place, follow_symlinks=False)
        links.append(Path(place))
    linked = [entry for _, entry in sorted(entries(folder).items())]
    for name, entry in zip(names, linked, strict=True):
        if entry != exchange.old[name]:
            raise FileNotFoundError(f"{name} was replaced meanwhile")
    return links


def build(exchange: Exchange, made: Sequence[Path], *, replaced: Collection[str], marker: str | None) -> None:
    """Build the new folder. `marker` is the name of a marker that is to vouch for the new files; None leaves an old one
    as it is. The files and the folder have the owner, the rights and the extended attributes of the old ones.

    Raises PermanentError if the old files differ in these attributes. Access control lists are among them.
    """
    old = os.stat(exchange.place)  # noqa: PTH116 - a location, as all paths of this package
    _require_own(exchange, old)
    os.mkdir(exchange.staged)  # noqa: PTH102 - as above
    shutil.copystat(exchange.place, exchange.staged)
    if (os.geteuid(), os.getegid()) != (old.st_uid, old.st_gid):
        os.chown(exchange.staged, old.st_uid, old.st_gid)
    like = os.stat(f"{exchange.place}/{min(replaced)}")  # noqa: PTH116 - as above
    attributes = _attributes(f"{exchange.place}/{min(replaced)}")
    if any(_attributes(f"{exchange.place}/{name}") != attributes for name in replaced):
        raise PermanentError(f"{exchange.place} has files with different access control lists or extended attributes")
    for file in made:
        target = f"{exchange.staged}/{file.name}"
        if file.name in exchange.old:
            raise PermanentError(f"{exchange.place} already holds a file {file.name}")
        os.rename(file, target)  # noqa: PTH104 - as above
        os.chmod(target, stat.S_IMODE(like.st_mode))  # noqa: PTH101 - as above
        with suppress(PermissionError):
            os.chown(target, like.st_uid, like.st_gid)
        _give(target, attributes)
        sync_file(target)
    for name in sorted(exchange.old.keys() - replaced - {marker}):
        os.link(f"{exchange.place}/{name}", f"{exchange.staged}/{name}", follow_symlinks=False)
    if marker is not None:
        _renew(exchange, marker)
    sync_folder(exchange.staged)


def _attributes(file: str) -> Mapping[str, bytes]:
    """Return the extended attributes that users set. The kernel keeps an access control list as one of them."""
    try:
        return {name: os.getxattr(file, name) for name in os.listxattr(file) if name.startswith(_OF_USERS)}
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return {}
        raise


def _give(file: str, attributes: Mapping[str, bytes]) -> None:
    """Give a file these attributes, and take the others: it may have some of the folder that it was made in."""
    for name in _attributes(file).keys() - attributes.keys():
        os.removexattr(file, name)
    for name, value in attributes.items():
        os.setxattr(file, name, value)


def _require_own(exchange: Exchange, old: os.stat_result) -> None:
    if os.geteuid() not in (0, old.st_uid):
        raise PermanentError(
            f"{exchange.place} belongs to the user {old.st_uid}, and not to the daemon's: run it as its writer's user"
        )


def _renew(exchange: Exchange, marker: str) -> None:
    """Make the marker, the last file of the folder and the newest."""
    target = f"{exchange.staged}/{marker}"
    shutil.copyfile(f"{exchange.place}/{marker}", target, follow_symlinks=False)
    shutil.copymode(f"{exchange.place}/{marker}", target, follow_symlinks=False)
    old = os.stat(f"{exchange.place}/{marker}", follow_symlinks=False)  # noqa: PTH116 - a location, as all paths of this package
    with suppress(PermissionError):
        os.chown(target, old.st_uid, old.st_gid, follow_symlinks=False)
    _give(target, _attributes(f"{exchange.place}/{marker}"))
    newest = max(entry.mtime_ns for name, entry in entries(exchange.staged).items() if name != marker)
    at = max(time.time_ns(), newest + _TICK_NS)
    os.utime(target, ns=(at, at))
    sync_file(target)


def publish(staged_exchange: Exchange, reach: Reach) -> bool:
    """Exchange the new folder with the partition, and return whether it stands. To be called with the partition as the
    plan has seen it. After a kill, `end_exchange` ends what was begun.
    """
    try:
        new = entries(staged_exchange.staged)
    except NoFileError as strange:
        raise PermanentError(str(strange)) from strange
    record = ExchangeRecord(
        run=staged_exchange.run,
        partition=staged_exchange.partition,
        progress=ExchangeProgress.STAGED,
        old=staged_exchange.old,
        new=new,
    )
    if not record.made:
        raise PermanentError(f"there is no new file for {staged_exchange.place}")
    return carried_out(record, staged_exchange.table, staged_exchange.home, act=exchange, reach=reach)
