"""How far a replacement of files is in a directory of an object store, as its state there says."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from lakewarden.planners.formats.directory.listing.names import OURS
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import Storage

_ENDED = b"deleted "
"""So begins the content of an object that stands for none (`ObjectConditions`)."""

_LARGEST = 64 * 1024

ACT = r"^[0-9a-f]{16}$"
"""The name of an act. It is also the name of its folder, which is deleted in the end: no other path can be given."""


class ActProgress(StrEnum):
    """How far an act is. Up to `staged` it is taken back after a kill. From then on it goes forward."""

    STAGED = "staged"
    """The new files are complete, in a folder that readers overlook."""
    POINTING = "pointing"
    """The metastore is being told to lead readers to that folder."""
    POINTED = "pointed"
    """The metastore leads all readers there. Those that were led to the partition before may still read."""
    REPLACING = "replacing"
    """In the folder of the partition the new files appear, and the old ones go."""
    RETURNED = "returned"
    """The metastore leads to the partition again. Readers may still read in the other folder."""
    CLEARING = "clearing"
    """Nothing needs the other folder any more."""


class ActState(BaseModel):
    """The state of the one act of a directory: its name, how far it is since when, and how long readers are waited for.
    `mark` makes each state another content.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    act: str = Field(pattern=ACT)
    run: str
    progress: ActProgress
    since: AwareDatetime
    grace_seconds: float
    mark: str = ""

    @property
    def goes_on_at(self) -> datetime | None:
        """Until when readers are waited for; None if nothing is waited for."""
        if self.progress not in (ActProgress.POINTED, ActProgress.RETURNED):
            return None
        return self.since + timedelta(seconds=self.grace_seconds)

    def at(self, progress: ActProgress, since: datetime) -> ActState:
        """Return the next state."""
        return self.model_copy(update={"progress": progress, "since": since})

    def written(self) -> bytes:
        """Return the state as an object holds it. No two writes have the same content."""
        return self.model_copy(update={"mark": uuid.uuid4().hex}).model_dump_json().encode()


def act_place(table: str) -> str:
    """Return where the state of a directory's act is."""
    return f"{table}/{OURS}/act.json"


def act_in(content: bytes, table: str) -> ActState:
    """Return the state that an object holds. Raises PermanentError if it is damaged."""
    try:
        return ActState.model_validate_json(content)
    except ValidationError as damaged:
        raise PermanentError(
            f"{act_place(table)} cannot be read: look which files of {table} hold all rows, lead the entries of its "
            "metastore back to the partitions, and remove it"
        ) from damaged


def act_of(table: str, storage: Storage) -> ActState | None:
    """Return the act that is under way in a directory of an object store; None if there is none."""
    try:
        content = storage.read(act_place(table), limit=_LARGEST)
    except FileNotFoundError:
        return None
    return None if content.startswith(_ENDED) else act_in(content, table)
