"""The result of reading the configuration again, and what reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class ReloadOutcome:
    """Whether a configuration is in force, and why not.

    `problems` are its errors, one line each. If there is one, the last good configuration stays in force.
    `needs_restart` are the keys with another value than at the start of the daemon. They are read at the start only.
    `gone` are the ids and patterns of the entries that are no longer in the file. Their tables are let go, if no other
    entry means them.
    """

    accepted: bool
    at: datetime
    tables: int = 0
    problems: Sequence[str] = ()
    needs_restart: Sequence[str] = ()
    gone: Sequence[str] = ()


class Reloading(Protocol):
    """What reads the configuration again. For any thread."""

    @property
    def last(self) -> ReloadOutcome | None:
        """Return the result of the last time. None if it was read at the start only."""
        ...

    def reload(self) -> ReloadOutcome:
        """Read the configuration again, and put it in force if it has no error. Runs go on."""
        ...

    def refusal(self) -> Sequence[str]:
        """Return what to tell of a configuration that was refused. Empty if the last one is in force."""
        ...
