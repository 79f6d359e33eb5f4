"""The folder below a directory in which the runs work: what killed ones have left there, and a place for a new one."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from pathlib import Path

import structlog

from lakewarden.executors.programs.directory.exchanging.ending import Reach, Relist, end_exchange
from lakewarden.executors.programs.directory.exchanging.renames import exchange, is_of_one_place
from lakewarden.planners.formats.directory.listing.folders import OURS
from lakewarden.planners.model.errors import LakewardenError

log = structlog.get_logger(__name__)


class _NotListedError(Exception):
    """A partition is at its place again, and not in the list of its metastore."""


class OwnFolder:
    """To be used under the lock of the directory."""

    def __init__(self, table: str, *, relist: Relist) -> None:
        """`relist` puts a partition back into the list of its metastore."""
        self._table = table
        self._relist = relist
        self._place = Path(table) / OURS

    def end_earlier(self, reach: Reach) -> int:
        """End what killed runs have begun, and return how many acts were ended. The lock says that no run is at work on
        one. An act stays, and stops no other, if the kernel does not let go a file, or if the metastore does not list
        the partition again.
        """
        if not self._place.is_dir() or self._place.is_symlink():
            return 0
        homes = sorted(home for home in self._place.iterdir() if not home.is_symlink())
        return sum(self._is_ended(str(home), reach) for home in homes)

    def _is_ended(self, home: str, reach: Reach) -> bool:
        try:
            end_exchange(self._table, home, reach, relist=self._relisted)
        except _NotListedError as away:
            log.warning("act_not_ended", reason=str(away), remedy="the next run asks the metastore again")
            return False
        except OSError as refused:
            if not is_of_one_place(refused):
                raise
            log.warning(
                "act_not_ended",
                reason=f"{refused.filename}: {refused.strerror}",
                remedy=f"delete {home}, or let the daemon's user do so",
            )
            return False
        return True

    def _relisted(self, partition: str) -> None:
        try:
            self._relist(partition)
        except LakewardenError as away:
            raise _NotListedError(str(away)) from away

    def new(self, kind: str = "") -> str:
        """Return a place for one act, with a name that begins with its kind. Nothing is there yet."""
        self._place.mkdir(exist_ok=True)
        return str(self._place / f"{kind}{secrets.token_hex(8)}")

    def require_exchange(self) -> None:
        """Raise PermanentError if the disk cannot exchange two folders: two empty ones are tried."""
        home = Path(self.new())
        for name in "ab":
            (home / name).mkdir(parents=True)
        try:
            exchange(str(home / "a"), str(home / "b"))
        finally:
            shutil.rmtree(home)

    def tidy(self) -> None:
        """Remove the folder if nothing lies in it."""
        with contextlib.suppress(OSError):
            self._place.rmdir()
