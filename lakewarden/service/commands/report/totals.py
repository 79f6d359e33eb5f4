"""The sums of a report, over tables and over services. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lakewarden.planners.surveying.contents import NO_FILES, Amount
from lakewarden.service.commands.report.lines import TableLine, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceTotal:
    """One service over all tables: on how many it is due, on how many of these something has to be done first
    (`blocked`), and on how many it is not due. The amounts are those of tables on which it is due.
    """

    service: str
    due: int
    not_due: int
    blocked: int
    reads: Amount
    after: int
    deletes: Amount
    core_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class LakeTotal:
    """All tables together, and what the services that are due would change.

    `read_files` are the files that a query over everything opens, before and after. `kept` is what the stores keep.
    `reads`, `writes_bytes` and `core_seconds` are the cost, and `deletes` is what is freed.
    """

    tables: int
    due_tables: int
    small: Amount
    deltas: Amount
    old: Amount
    unknown: Amount
    metadata: Amount
    kept: Amount
    read_files: int
    read_files_after: int
    reads: Amount
    writes_bytes: int
    deletes: Amount
    core_seconds: float
    services: tuple[ServiceTotal, ...]


def total_of(tables: Sequence[TableLine]) -> LakeTotal:
    """Return the sums."""
    due = [one for table in tables for one in table.due()]
    reads = _sum([one.reads for one in due])
    read_files = sum(table.read_files for table in tables)
    return LakeTotal(
        tables=len(tables),
        due_tables=sum(any(True for _ in table.due()) for table in tables),
        small=_sum([table.small for table in tables]),
        deltas=_sum([table.deltas for table in tables]),
        old=_sum([table.old or NO_FILES for table in tables]),
        unknown=_sum([table.unknown or NO_FILES for table in tables]),
        metadata=_sum([table.metadata for table in tables]),
        kept=_sum([table.kept for table in tables]),
        read_files=read_files,
        read_files_after=read_files - sum(one.reads.files - one.after for one in due),
        reads=reads,
        writes_bytes=reads.bytes,
        deletes=_sum([one.deletes for one in due]),
        core_seconds=round(sum(one.core_seconds for one in due), 1),
        services=tuple(_service(name, tables) for name in _services(tables)),
    )


def _services(tables: Sequence[TableLine]) -> list[str]:
    return list(dict.fromkeys(one.service for table in tables for one in table.services))


def _service(name: str, tables: Sequence[TableLine]) -> ServiceTotal:
    lines = [one for table in tables for one in table.services if one.service == name]
    due = [one for one in lines if one.verdict.is_due]
    return ServiceTotal(
        service=name,
        due=len(due),
        not_due=len(lines) - len(due),
        blocked=sum(one.verdict is Verdict.BLOCKED for one in lines),
        reads=_sum([one.reads for one in due]),
        after=sum(one.after for one in due),
        deletes=_sum([one.deletes for one in due]),
        core_seconds=round(sum(one.core_seconds for one in due), 1),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstStep:
    """What has to be done before services can run on so many `tables`: the reason, and the remedy."""

    reason: str
    remedy: str | None
    tables: int


def first_steps(tables: Sequence[TableLine]) -> list[FirstStep]:
    """Return what blocks services that are due, the most frequent first."""
    found = Counter(
        reason
        for table in tables
        for reason in {(one.reason, one.remedy) for one in table.services if one.verdict is Verdict.BLOCKED}
    )
    return [FirstStep(reason=reason, remedy=remedy, tables=number) for (reason, remedy), number in found.most_common()]


def _sum(amounts: Sequence[Amount]) -> Amount:
    return Amount(sum(one.files for one in amounts), sum(one.bytes for one in amounts))
