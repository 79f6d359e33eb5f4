"""What the report says of one table, as values that travel as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from lakewarden.planners.surveying.contents import NO_FILES, Amount


class Verdict(StrEnum):
    """What a service would do now with the policies of the report. BLOCKED: it is due, and something has to be done
    before it can run, as its reason says. UNKNOWN: the table's metadata cannot be read whole.
    """

    DUE = "due"
    NOT_DUE = "not_due"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"

    @property
    def is_due(self) -> bool:
        """Whether the service has something to do now."""
        return self in (Verdict.DUE, Verdict.BLOCKED)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceLine:
    """One service of one table.

    It would read `reads` and write at most as many bytes in `after` files. It would delete `deletes`. `core_seconds`
    are estimated (`cost.py`). The figures are there whether it is due or not.
    """

    service: str
    verdict: Verdict
    reason: str
    remedy: str | None = None
    reads: Amount = NO_FILES
    after: int = 0
    deletes: Amount = NO_FILES
    core_seconds: float = 0.0

    @property
    def fewer(self) -> int:
        """Return how many files fewer readers open, and stores keep, after it."""
        return self.reads.files - self.after + self.deletes.files


@dataclass(frozen=True, kw_only=True, slots=True)
class TableLine:
    """One table. The amounts are those of `Contents`. `left_out` are limits of the figures."""

    location: str
    name: str
    format: str
    kind: str = ""
    version: str = ""
    last_commit_at: str | None = None
    live: Amount = NO_FILES
    small: Amount = NO_FILES
    deltas: Amount = NO_FILES
    old: Amount | None = None
    unknown: Amount | None = None
    metadata: Amount = NO_FILES
    versions: int = 0
    services: tuple[ServiceLine, ...] = ()
    left_out: tuple[str, ...] = ()
    seconds: float = 0.0

    def due(self) -> Iterator[ServiceLine]:
        """Yield the services that are due, those included that are blocked until something is done."""
        yield from (one for one in self.services if one.verdict.is_due)

    @property
    def called(self) -> str:
        """Return a short name: the last two names of its location. The names of many tables are equal."""
        return "/".join(self.location.rstrip("/").split("/")[-2:])

    @property
    def read_files(self) -> int:
        """Return how many files a query over the whole table opens."""
        return self.live.files + self.deltas.files

    @property
    def kept(self) -> Amount:
        """Return the data files that its store keeps."""
        return self.live.plus(self.deltas).plus(self.old or NO_FILES).plus(self.unknown or NO_FILES)

    @property
    def fewer(self) -> int:
        """Return how many files fewer there are after the services that are due."""
        return sum(one.fewer for one in self.due())

    @property
    def frees(self) -> int:
        """Return how many bytes the services that are due would delete."""
        return sum(one.deletes.bytes for one in self.due())

    @property
    def badness(self) -> tuple[int, int, str]:
        """Return what the tables are ordered by: the files that may go, then the bytes."""
        return (-self.fewer, -self.frees, self.location)


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadLine:
    """A table or a place that could not be read, with the reason."""

    location: str
    format: str | None
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SurveyAnswer:
    """The answer of a worker about one table: its line, or why there is none. `ends`: it is the last answer of the
    worker, because the table needed too much memory.
    """

    table: TableLine | None = None
    unread: str | None = None
    ends: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class LakeReport:
    """The whole report. The worst table comes first."""

    at: str
    places: tuple[str, ...]
    tables: tuple[TableLine, ...] = ()
    unread: tuple[UnreadLine, ...] = field(default=())
