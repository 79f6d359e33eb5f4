"""Tables that are registered over the API: their rows in the store, and what keeps them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.access import Caller


@dataclass(frozen=True, kw_only=True, slots=True)
class RegistrationRow:
    """One registered table in the store. `number` orders all changes of registrations, without a gap.

    `entry` is what the table's entry in the configuration would be, as JSON. None: the table was removed. The row stays
    so that replicas hear of it.
    """

    table: TableId
    entry: str | None
    number: int
    by: str
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Registration:
    """A registered table. `problem` is why it is not served, such as a policy that the configuration has no longer."""

    table: TableId
    entry: Mapping[str, Any]
    by: str
    at: datetime
    problem: str | None = None


Expected = Callable[[Registration], bool]
"""Whether a registration is the one that a caller has seen, so that it may be changed or removed."""


class RegistrationRefusedError(PermanentError):
    """A table cannot be registered, changed or removed. `remedy` says what to do."""

    def __init__(self, reason: str, *, remedy: str | None = None) -> None:
        super().__init__(reason)
        self.remedy = remedy


class NotRegisteredError(RegistrationRefusedError):
    """No table with this id was registered over the API."""


class OtherRegistrationError(RegistrationRefusedError):
    """The registration is not the one that the caller has seen."""


def any_registration(_: Registration) -> bool:
    """Expect nothing: whatever is registered is changed or removed."""
    return True


class Registering(Protocol):
    """What registers tables. For any thread, which waits for the store and the file system.

    Raises TemporaryError if the store does not answer.
    """

    def registrations(self) -> Sequence[Registration]:
        """Return every registered table, by its id."""
        ...

    def register(self, entry: Mapping[str, Any], *, caller: Caller) -> Registration:
        """Register a table. Raises RegistrationRefusedError."""
        ...

    def change(
        self, table: TableId, entry: Mapping[str, Any], *, caller: Caller, expected: Expected = any_registration
    ) -> Registration:
        """Give a registered table other settings. No other change comes between the look of `expected` and this one.

        Raises RegistrationRefusedError, NotRegisteredError, and OtherRegistrationError if it is not as `expected`.
        """
        ...

    def remove(self, table: TableId, *, caller: Caller, expected: Expected = any_registration) -> None:
        """Serve a table no longer. Raises what `change` raises."""
        ...


# The result of reading the configuration again, and what reads it.


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
