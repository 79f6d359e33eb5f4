"""The journal of one exchange: written before it, and enough to end it after a kill."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from lakewarden.executors.programs.directory.exchanging.entries import Entry
from lakewarden.executors.programs.directory.exchanging.renames import sync_folder
from lakewarden.executors.programs.directory.written_paths import FileName, PartitionPath
from lakewarden.planners.model.errors import PermanentError

NAME = "record.json"


class ExchangeProgress(StrEnum):
    """How far an exchange is."""

    STAGED = "staged"
    """The new folder is complete. It may have been exchanged with the partition, or not."""
    PUBLISHED = "published"
    """It was exchanged, and the files that it replaces were found unchanged after that. They may be deleted."""


class ExchangeRecord(BaseModel):
    """One exchange: the partition, by its path below the table, the files of both folders, and the names of those that
    are in the new one alone (`made`) and in the old one alone (`replaced`). `listed`: a metastore listed the partition
    before it was to be deleted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    partition: PartitionPath
    progress: ExchangeProgress
    old: Mapping[FileName, Entry]
    new: Mapping[FileName, Entry]
    listed: bool = False

    @property
    def is_drop(self) -> bool:
        """Whether nothing takes the place of the old folder."""
        return not self.new

    @property
    def made(self) -> frozenset[str]:
        """The names of the new files."""
        return frozenset(self.new) - frozenset(self.old)

    @property
    def replaced(self) -> frozenset[str]:
        """The names of the files that the new ones stand for."""
        return frozenset(self.old) - frozenset(self.new)


def write(home: str, record: ExchangeRecord) -> None:
    """Write the record. After a kill there is the one before, or this one."""
    draft, place = f"{home}/{NAME}.draft", f"{home}/{NAME}"
    with open(draft, "wb") as file:  # noqa: PTH123 - a location, as all paths of this package
        file.write(record.model_dump_json().encode())
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, place)  # noqa: PTH105 - as above
    sync_folder(home)
    sync_folder(os.path.dirname(home))  # noqa: PTH120 - as above


def read(home: str) -> ExchangeRecord | None:
    """Return the journal; None if there is none: then nothing was exchanged. Raises PermanentError if it is damaged."""
    place = Path(home) / NAME
    try:
        return ExchangeRecord.model_validate_json(place.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as damaged:
        raise PermanentError(
            f"{place} cannot be read: look which of {home}/new and the partition holds all rows, and remove {home}"
        ) from damaged
