"""How a partition goes: its folder is moved away in one act of the kernel, looked at once more, and then deleted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

from lakewarden.executors.points import Point
from lakewarden.executors.programs.directory.exchanging.acting import carried_out
from lakewarden.executors.programs.directory.exchanging.ending import Reach
from lakewarden.executors.programs.directory.exchanging.record import ExchangeProgress, ExchangeRecord
from lakewarden.executors.programs.directory.exchanging.renames import Entry, move


class ListOfPartitions(Protocol):
    """The list of partitions in a metastore, by their paths below the table. Each act may be repeated."""

    def holds(self, path: str) -> bool:
        """Whether the partition is listed, at its folder."""
        ...

    def drop(self, path: str) -> bool:
        """Take the partition out of the list; return whether it was there."""
        ...

    def restore(self, path: str) -> None:
        """Put the partition back into the list, if its folder is there."""
        ...


def drop(
    table: str,
    home: str,
    partition: str,
    *,
    run: str,
    old: Mapping[str, Entry],
    reach: Reach,
    listing: ListOfPartitions | None = None,
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
