"""One look at a table: its token is asked for, and what has changed is read. Nothing that it meets is raised."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple, assert_never

from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError, UnknownError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import Observation, Storage, TableFormat

_LONGEST_MESSAGE = 2000
"""Characters of a message that are kept: a table's own names stand in it."""


class TroubleKind(Enum):
    """What the caller does next, as the errors' names say it."""

    TEMPORARY = "temporary"
    PERMANENT = "permanent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """A LakewardenError that can travel between processes."""

    kind: TroubleKind
    message: str
    delay: timedelta | None = None

    @classmethod
    def of(cls, error: BaseException) -> Trouble:
        """Return what went wrong. What nobody foresaw about one table is unknown, and named by its type."""
        message = str(error)[:_LONGEST_MESSAGE]
        match error:
            case TemporaryError():
                return cls(kind=TroubleKind.TEMPORARY, message=message, delay=error.delay)
            case PermanentError():
                return cls(kind=TroubleKind.PERMANENT, message=message)
            case LakewardenError():
                return cls(kind=TroubleKind.UNKNOWN, message=message)
            case _:
                return cls(kind=TroubleKind.UNKNOWN, message=f"{type(error).__name__}: {message}")

    def error(self) -> LakewardenError:
        """Return the error to raise."""
        match self.kind:
            case TroubleKind.TEMPORARY:
                return TemporaryError(self.message, delay=self.delay or timedelta(0))
            case TroubleKind.PERMANENT:
                return PermanentError(self.message)
            case TroubleKind.UNKNOWN:
                return UnknownError(self.message)
            case _:
                assert_never(self.kind)


class LookAsked(NamedTuple):
    """A look that is asked for. Its `ticket` is a number that no other look has.

    `anew`: read the table, whatever its token says. `full`: read all of it, and remember nothing that may have changed.
    `known` is the ticket of the look that brought what the asker keeps, and `previous` what that is; None where nothing
    is kept.
    """

    ticket: int
    table: Table
    anew: bool = False
    full: bool = False
    known: int | None = None
    previous: Observation | None = None


class LookAnswer(NamedTuple):
    """What a look brought that shows something else than what is known: an observation without its memo, or trouble."""

    ticket: int
    observation: Observation | None = None
    trouble: Trouble | None = None


class Answers(NamedTuple):
    """What looks brought: the tickets of those by which nothing has changed, and the others. With `ends` they are the
    last ones of a process: its last look was too much for it.
    """

    unchanged: Sequence[int] = ()
    others: Sequence[LookAnswer] = ()
    ends: bool = False


class Looker:
    """Looks at tables, and remembers of each what its format needs to read only what is new the next time.

    For any threads, as long as a table is looked at by one at a time.
    """

    def __init__(self, *, formats: Mapping[str, TableFormat], storage_for: Callable[[str], Storage]) -> None:
        self._formats = formats
        self._storage_for = storage_for
        self._kept: dict[TableId, tuple[int, Observation]] = {}

    def look(self, asked: LookAsked, *, now: datetime) -> LookAnswer | None:
        """Look at a table; return None where what is known of it still stands. Only a lack of memory is raised."""
        try:
            observation = self._observed(asked, now)
        except MemoryError:
            self._kept.clear()
            raise
        except LakewardenError as error:
            return LookAnswer(ticket=asked.ticket, trouble=Trouble.of(error))
        except Exception as unforeseen:  # noqa: BLE001 - the edge of one table: its trouble must not become another's
            return LookAnswer(ticket=asked.ticket, trouble=Trouble.of(unforeseen))
        return None if observation is None else LookAnswer(ticket=asked.ticket, observation=observation)

    def forget(self, table: TableId) -> None:
        """Remember nothing of a table."""
        self._kept.pop(table, None)

    def _observed(self, asked: LookAsked, now: datetime) -> Observation | None:
        """Return the table as it is now, None where what is known of it still stands."""
        table = asked.table
        storage, table_format = self._storage_for(table.location), self._formats[table.format]
        ticket, previous = self._remembered(asked)
        if previous is not None and ticket == asked.known and not (asked.anew or asked.full):
            token = table_format.token(table, storage)
            if previous.vouched_for(token=token, now=now):
                return None
        if asked.full and previous is not None and not previous.lasting:
            previous = replace(previous, memo=None)
        observation = table_format.observe(table, storage, previous, now=now)
        self._kept[table.id] = (asked.ticket, observation)
        return replace(observation, memo=None)

    def _remembered(self, asked: LookAsked) -> tuple[int | None, Observation | None]:
        """Return what is remembered of the table, or else what the asker knows of it."""
        kept = self._kept.get(asked.table.id)
        if kept is not None:
            return kept
        if asked.previous is not None and asked.known is not None:
            self._kept[asked.table.id] = (asked.known, asked.previous)
        return asked.known, asked.previous
