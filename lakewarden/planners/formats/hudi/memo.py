"""What one observation hands to the next: the few facts that cost a read, by the file they were read from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from lakewarden.planners.formats.hudi.payloads import MALFORMED, UnreadableError, decode
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import PlanSize, RunId
from lakewarden.planners.ports import FileEntry, Storage


class Fact(NamedTuple):
    """What was read in one file: a plan's size and author, or how far a clean has looked."""

    plan: PlanSize | None = None
    author: RunId | None = None
    cleaned_up_to: str | None = None


class Remembered(NamedTuple):
    """A fact with the size and time of the file it was read from."""

    size: int
    modified: datetime
    fact: Fact


Memo = Mapping[str, Remembered]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One pass over a timeline's payloads: what it had to know is kept, what could not be read is a fault."""

    storage: Storage
    folder: str
    remembered: Memo
    kept: dict[str, Remembered] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def fact(self, entry: FileEntry, make: Callable[[Mapping[str, Any] | None], Fact]) -> Fact | None:
        """Return what `make` says of a file's record, from memory if the file has not changed since.

        None, and a fault, if the file cannot be read.
        """
        known = self.remembered.get(entry.name)
        if known is not None and (known.size, known.modified) == (entry.size, entry.modified):
            self.kept[entry.name] = known
            return known.fact
        try:
            fact = make(decode(self.storage.read(f"{self.folder}/{entry.name}")))
        except FileNotFoundError:
            self.faults.append(f"{entry.name} went away while it was read")
        except (UnreadableError, PermanentError) as error:
            self.faults.append(f"{entry.name} cannot be read: {error}")
        except MALFORMED as error:
            self.faults.append(f"{entry.name} is not what Hudi writes: {type(error).__name__} {error}")
        else:
            self.kept[entry.name] = Remembered(size=entry.size, modified=entry.modified, fact=fact)
            return fact
        return None
