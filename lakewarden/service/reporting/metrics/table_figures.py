"""The figures of one table, from its status. What comes from its view is measured once for each view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from lakewarden.planners.lock_proof import ProofState
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import TableView
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.reporting.metrics import families as of
from lakewarden.service.reporting.metrics.families import Family, Key

_SHAPES: dict[tuple[Key, ...], tuple[Key, ...]] = {}
"""The keys of each kind of table, once. There are few kinds."""

_PROOF = {ProofState.PROVED: 1, ProofState.UNKNOWN: 0, ProofState.DISPROVED: -1}
_PILES = (("log_files", of.LOG_FILES), ("small_files", of.SMALL_FILES))


@dataclass(frozen=True, slots=True)
class Figures:
    """Values by their keys. Tables of the same kind have equal `keys`, so that thousands of them share one."""

    keys: tuple[Key, ...] = ()
    values: tuple[float, ...] = ()

    @classmethod
    def of(cls, figures: Iterable[tuple[Key, float]]) -> Figures:
        """Return the figures of these pairs."""
        pairs = list(figures)
        if not pairs:
            return cls()
        keys, values = zip(*pairs, strict=True)
        return cls(_SHAPES.setdefault(keys, keys), values)

    def pairs(self) -> Iterator[tuple[Key, float]]:
        """Yield each key with its value."""
        return zip(self.keys, self.values, strict=True)


def seen_in(view: TableView | None, table: Table) -> Figures:
    """Return what a view says of a table: its services with a policy, its files, its writers and its readers."""
    return Figures() if view is None else Figures.of(_seen_in(view, table))


def known_of(status: TableStatus) -> Figures:
    """Return what the daemon knows of a table besides its view and its poll."""
    return Figures.of(_known_of(status))


def polled_of(status: TableStatus, ago: timedelta | None) -> Figures:
    """Return when a table was polled, and how often it is. This alone is new at each scrape."""
    if ago is None:
        return Figures()
    if status.polled_every is None:
        return Figures(_POLLED[:1], (ago.total_seconds(),))
    return Figures(_POLLED, (ago.total_seconds(), status.polled_every.total_seconds()))


def _seen_in(view: TableView, table: Table) -> Iterator[tuple[Key, float]]:
    pending: dict[object, list[Instant]] = {}
    for instant in view.timeline.instants:
        if instant.pending:
            pending.setdefault(instant.stands_for, []).append(instant)
    for service in sorted(table.policies):
        yield from _of_service(view, service, pending.get(service, []))
    for figure, family in _PILES:
        counts = [count for backlog in view.backlogs.values() if (count := getattr(backlog, figure)) is not None]
        if counts:
            yield _key(family), max(counts)
    for inner in view.inner:
        yield _key(of.INNER_COMMITS, inner.name), inner.commits
    for service, since in view.unseen_since.items():
        yield _key(of.UNSEEN_SINCE, service), since.timestamp()
    held = view.timeline.held_by_savepoint()
    if held:
        yield _key(of.SAVEPOINT_SINCE), held[0].requested_at.timestamp()
    for reader in view.readers:
        name = printable(reader.name)
        yield _key(of.READER_BEHIND, name), -1 if reader.unreadable is not None else reader.behind
        if reader.unread_since is not None:
            yield _key(of.READER_SINCE, name), reader.unread_since.timestamp()
    writers = view.writers
    yield _key(of.WRITES_IN_FLIGHT), len(writers.in_flight)
    if writers.last_commit_at is not None:
        yield _key(of.LAST_COMMIT), writers.last_commit_at.timestamp()


def _of_service(view: TableView, service: Service, pending: list[Instant]) -> Iterator[tuple[Key, float]]:
    yield _key(of.PENDING, service), len(pending)
    if pending:
        yield _key(of.FIRST_PENDING, service), pending[0].requested_at.timestamp()
    backlog = view.backlogs.get(service)
    if backlog is None:
        return
    yield _key(of.COMMITS_SINCE, service), backlog.commits
    if backlog.bytes is not None:
        yield _key(of.BACKLOG_BYTES, service), backlog.bytes


def _known_of(status: TableStatus) -> Iterator[tuple[Key, float]]:
    for service, retries in status.retries.items():
        yield _key(of.RETRIES, service), retries.times
    for service in status.table.policies:
        if (decision := status.decisions.get(service)) is not None:
            blocked = isinstance(decision, Blocked)
            yield _key(of.BLOCKED, service), blocked
            yield _key(of.QUARANTINED, service), blocked and decision.code == "quarantined"
    yield _key(of.POLL_FAILING), status.failure is not None
    if status.lock is not None:
        yield _key(of.LOCK_PROVED), _PROOF[status.lock.verdict]
    yield _key(of.APPROVALS), len(status.approvals)
    yield _key(of.REWRITES), len(status.rewrites)


_KEYS: dict[tuple[Family, str], Key] = {}


def _key(family: Family, label: str = "") -> Key:
    """Return the one key of a series, so that equal keys are one object."""
    key = _KEYS.get((family, label))
    if key is None:
        key = _KEYS[family, label] = (family, (str(label),) if family.labels else ())
    return key


_POLLED = (_key(of.POLL_AGE), _key(of.POLL_INTERVAL))
