"""What needs an operator now, and how that changes what the store remembers of it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import TableId
from lakewarden.service.config.daemon.notifications import DebtLimits
from lakewarden.service.control.plane import TableStatus
from lakewarden.service.model.history import Debt
from lakewarden.service.model.notices import Key, NoticeKind, NoticeRow
from lakewarden.service.model.reasons import code_of
from lakewarden.service.model.rows import ApprovalRow
from lakewarden.service.reporting.quantities import size

FAILURES_OF = timedelta(days=1)
"""A failure of a writer that is older is not told."""

_LONGEST = 500
_LONGEST_SUBJECT = 255


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """Something that needs an operator. `words` are a sentence without the name of the table."""

    table: TableId
    kind: NoticeKind
    subject: str
    words: str
    service: Service | None = None
    contact: str | None = None

    @property
    def key(self) -> Key:
        """Return what makes it the same notice."""
        return self.table, self.kind, self.subject


@dataclass(frozen=True, kw_only=True, slots=True)
class NoticeChanges:
    """What the store has to keep and to forget, and the notices that were not told yet."""

    keep: Sequence[NoticeRow] = ()
    forget: Sequence[NoticeRow] = ()
    untold: Sequence[Notice] = ()


def notices_of(
    status: TableStatus,
    approvals: Sequence[ApprovalRow],
    debts: Mapping[Service, Debt],
    limits: DebtLimits,
    now: datetime,
) -> Iterator[Notice]:
    """Yield the notices of a table. `approvals` are those of the table, and `debts` what has piled up in it."""
    for row in approvals:
        if row.service in status.approvals:
            of = "" if row.files_in_table is None else f" of {row.files_in_table}"
            files = f"{row.files}{of} files and {row.partitions} partitions"
            said = f"{row.service} would delete {files}: it waits for an approval"
            yield _notice(status, NoticeKind.APPROVAL, f"{row.service} {row.asked_at.isoformat()}", said, row.service)
    for service, decision in status.decisions.items():
        if isinstance(decision, Blocked) and code_of(decision) == "quarantined":
            yield _notice(status, NoticeKind.QUARANTINE, service.value, f"{service} is {decision.reason}", service)
    for blamed in status.writer_failures:
        if blamed.failure.at < now - FAILURES_OF:
            continue
        near = "no run of Lakewarden was near it" if blamed.run is None else f"it met the run {blamed.run}"
        said = f"the write {blamed.failure.instant} failed ({blamed.failure.reason}); {near}"
        yield _notice(status, NoticeKind.WRITER_FAILURE, blamed.failure.instant, said)
    for service, debt in debts.items():
        beyond = _beyond(debt, limits)
        if beyond:
            yield _notice(status, NoticeKind.DEBT, service.value, f"{service} has {', '.join(beyond)}", service)


def _notice(status: TableStatus, kind: NoticeKind, subject: str, words: str, service: Service | None = None) -> Notice:
    table = status.table
    shown = printable(words, most=_LONGEST)
    subject = subject[:_LONGEST_SUBJECT]
    return Notice(table=table.id, kind=kind, subject=subject, words=shown, service=service, contact=table.contact)


def _beyond(debt: Debt, limits: DebtLimits) -> Sequence[str]:
    """Return what is beyond its limit, in words."""
    found = []
    if limits.files is not None and debt.files > limits.files:
        found.append(f"{debt.files} files to rewrite, and the limit is {limits.files}")
    if limits.bytes is not None and debt.bytes > limits.bytes:
        found.append(f"{size(debt.bytes)} to rewrite, and the limit is {size(limits.bytes)}")
    if limits.commits is not None and debt.commits > limits.commits:
        found.append(f"{debt.commits} commits since its last run, and the limit is {limits.commits}")
    if limits.pending is not None and debt.pending > limits.pending:
        found.append(f"{debt.pending} pending plans, and the limit is {limits.pending}")
    return found


def changes(
    kept: Sequence[NoticeRow],
    found: Sequence[Notice],
    *,
    seen: Collection[TableId],
    now: datetime,
    quiet: timedelta,
) -> NoticeChanges:
    """Return what to keep, to forget and to tell. Only the tables that this replica has `seen` count.

    A cause that is gone is remembered for `quiet` if it was told. If it comes again within this time, it is the same.
    """
    rows = {row.key: row for row in kept if row.table in seen}
    open_now = {notice.key: notice for notice in found}
    keep, forget = list[NoticeRow](), list[NoticeRow]()
    for key, row in rows.items():
        if key in open_now:
            if row.gone_at is not None:
                keep.append(replace(row, gone_at=None))
        elif row.sent_at is None or (row.gone_at is not None and row.gone_at + quiet <= now):
            forget.append(row)
        elif row.gone_at is None:
            keep.append(replace(row, gone_at=now))
    untold = [notice for key, notice in open_now.items() if key not in rows or rows[key].sent_at is None]
    return NoticeChanges(keep=keep, forget=forget, untold=untold)
