"""One observation of a table. It asks for the token, and reads what has changed. It raises no error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple, assert_never

from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError, UnknownError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import Backlog, TableView
from lakewarden.planners.ports import Observation, Storage, TableFormat

_LONGEST_MESSAGE = 2000
"""The most characters of a message that are kept. Names of the table are in it."""


class ReadFailureKind(Enum):
    """What the caller does next, as the names of the errors say it."""

    TEMPORARY = "temporary"
    PERMANENT = "permanent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadFailure:
    """A LakewardenError that can travel between processes."""

    kind: ReadFailureKind
    message: str
    delay: timedelta | None = None

    @classmethod
    def of(cls, error: BaseException) -> ReadFailure:
        """Return the failure for an error. An unforeseen error about one table is unknown, and named by its type."""
        message = str(error)[:_LONGEST_MESSAGE]
        match error:
            case TemporaryError():
                return cls(kind=ReadFailureKind.TEMPORARY, message=message, delay=error.delay)
            case PermanentError():
                return cls(kind=ReadFailureKind.PERMANENT, message=message)
            case LakewardenError():
                return cls(kind=ReadFailureKind.UNKNOWN, message=message)
            case _:
                return cls(kind=ReadFailureKind.UNKNOWN, message=f"{type(error).__name__}: {message}")

    def error(self) -> LakewardenError:
        """Return the error to raise."""
        match self.kind:
            case ReadFailureKind.TEMPORARY:
                return TemporaryError(self.message, delay=self.delay or timedelta(0))
            case ReadFailureKind.PERMANENT:
                return PermanentError(self.message)
            case ReadFailureKind.UNKNOWN:
                return UnknownError(self.message)
            case _:
                assert_never(self.kind)


class ObservationRequest(NamedTuple):
    """A requested observation. Its `ticket` is a number that no other observation has.

    `anew`: read the table whatever its token says. `full`: read all of it, and forget everything that may have changed.
    `previous` is the observation that the asker keeps, and `known` is its ticket. None if the asker keeps none.
    """

    ticket: int
    table: Table
    anew: bool = False
    full: bool = False
    known: int | None = None
    previous: Observation | None = None


class ObservationAnswer(NamedTuple):
    """The result of an observation that differs from the known one: an observation without its memo, or a failure."""

    ticket: int
    observation: Observation | None = None
    failure: ReadFailure | None = None


class Answers(NamedTuple):
    """The results of observations: the tickets of those without a change, and the others. With `ends` they are the last
    ones of a process, because its last observation needed too much memory.
    """

    unchanged: Sequence[int] = ()
    others: Sequence[ObservationAnswer] = ()
    ends: bool = False


def _held_once(view: TableView) -> TableView:
    """Return the view with equal backlogs held once. Most services of a table have none."""
    equal: dict[Backlog, Backlog] = {}
    return replace(
        view, backlogs={service: equal.setdefault(backlog, backlog) for service, backlog in view.backlogs.items()}
    )


class Observer:
    """Looks at tables. For each it remembers what its format needs to read only what is new the next time. Backlogs are
    not among that.

    Any thread may use it, as long as only one at a time looks at the same table.
    """

    def __init__(self, *, formats: Mapping[str, TableFormat], storage_for: Callable[[str], Storage]) -> None:
        self._formats = formats
        self._storage_for = storage_for
        self._kept: dict[TableId, tuple[int, Observation]] = {}

    def observe(self, request: ObservationRequest, *, now: datetime) -> ObservationAnswer | None:
        """Look at a table. Return None if what is known of it is still valid. Only a MemoryError is raised."""
        try:
            observation = self._observed(request, now)
        except MemoryError:
            self._kept.clear()
            raise
        except LakewardenError as error:
            return ObservationAnswer(ticket=request.ticket, failure=ReadFailure.of(error))
        except Exception as unforeseen:  # noqa: BLE001 - the failure of one table must not affect another
            return ObservationAnswer(ticket=request.ticket, failure=ReadFailure.of(unforeseen))
        return None if observation is None else ObservationAnswer(ticket=request.ticket, observation=observation)

    def forget(self, table: TableId) -> None:
        """Remember nothing of a table."""
        self._kept.pop(table, None)

    def _observed(self, request: ObservationRequest, now: datetime) -> Observation | None:
        """Return the observation of the table. None if what is known of it is still valid."""
        table = request.table
        storage, table_format = self._storage_for(table.location), self._formats[table.format]
        ticket, previous = self._remembered(request)
        if previous is not None and ticket == request.known and not (request.anew or request.full):
            token = table_format.token(table, storage)
            if previous.vouched_for(token=token, now=now):
                return None
        if request.full and previous is not None and not previous.lasting:
            previous = replace(previous, memo=None)
        observation = table_format.observe(table, storage, previous, now=now)
        view = _held_once(observation.view)
        self._kept[table.id] = (request.ticket, replace(observation, view=replace(view, backlogs={})))
        return replace(observation, view=view, memo=None)

    def _remembered(self, request: ObservationRequest) -> tuple[int | None, Observation | None]:
        """Return what is remembered of the table, else what the asker knows of it."""
        kept = self._kept.get(request.table.id)
        if kept is not None:
            return kept
        if request.previous is not None and request.known is not None:
            self._kept[request.table.id] = (request.known, request.previous)
        return request.known, request.previous
