"""What the owner of an Iceberg table tells us about it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, field_validator

from lakewarden.planners.settings import Duration, Settings, Within, shown
from lakewarden.planners.storage.inside import NoPlaceError, place_of


class Outside(StrEnum):
    """What becomes of files outside the table's folders that it needs no more."""

    REFUSE = "refuse"
    LEAVE = "leave"


class IcebergTableOptions(Settings):
    """What Lakewarden must know of an Iceberg table that the table itself does not say."""

    longest_outage: Annotated[Duration, Within("0s", "365d")] = Field(default="24h", validate_default=True)
    """A writer may stop for so long and go on where it was. No snapshot that is younger is expired: a Flink job that is
    restored looks for its last commit in the table's history, and commits it again where it is gone. No younger file is
    an orphan: a worker of Kafka Connect commits what it wrote before it stopped."""

    flink_restores: Annotated[Duration, Within("0s", "365d")] = Field(default="7d", validate_default=True)
    """A Flink job that was stopped is restored within this time. Until then all snapshots stay that lead from the head
    of its branch to its newest one, which is where it looks for its last commit. Each redeployed job has another id: so
    long stays the newest snapshot of one that was superseded. No younger file is an orphan: a
    checkpoint may know it."""

    keep_last_flink_commit: bool = True
    """The newest snapshot of the Flink job that was the last to commit to a branch stays for ever, for that job may be
    at work still. Set it to false where none is: the snapshot, and the rows of its time, may then expire."""

    quiet_intervals: Annotated[int, Within(0, 1000)] = 3
    """A partition that a MERGE, UPDATE or DELETE has touched is left alone for so many of its usual intervals between
    such commits, at least for `quiet_for`. Zero leaves only `quiet_for`."""

    quiet_for: Annotated[Duration, Within("0s", "30d")] = Field(default="1m", validate_default=True)
    """The least time for which such a partition is left alone."""

    distance: Annotated[Duration, Within("0s", "1d")] = Field(default="30s", validate_default=True)
    """On a table with such a writer, the least time between two commits of ours."""

    folders: tuple[str, ...] = ()
    """Folders besides the table's location that hold files of this table alone (`write.data.path`): what it needs no
    more is deleted there, too. Whatever else lies outside its location is not ours to delete."""

    outside: Outside = Outside.REFUSE
    """What a clean does where snapshots would leave files behind outside these folders: `refuse` expires nothing and
    says which, `leave` lets them lie, as is right for files that `add_files` took in."""

    @field_validator("folders")
    @classmethod
    def _each_is_a_folder(cls, folders: tuple[str, ...]) -> tuple[str, ...]:
        for folder in folders:
            try:
                names = place_of(folder, store="").names
            except NoPlaceError as no_place:
                raise ValueError(f"{shown(folder)} {no_place}") from no_place
            if not names:
                said = "is a whole disk or bucket: name the folder that is this table's alone"
                raise ValueError(f"{shown(folder)} {said}")
        return folders
