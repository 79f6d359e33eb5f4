"""Which branches and tags may expire: those with an age (`max-ref-age-ms`), if nothing else needs them. Pure.

As in Iceberg's `RemoveSnapshots`, a name is as old as the snapshot for which it stands, and main has no age.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.planners.formats.iceberg.metadata.metadata import MAIN, Ref, TableMetadata
from lakewarden.planners.formats.iceberg.metadata.moments import FOR_EVER, later
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.settings import format_duration

NamedRef = tuple[str, int]
"""A name and the snapshot for which it stands. A name that was moved is another one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RefAge:
    """How long a name stays: by its own age until `aged_at`, and for the writers that may need it until `stays_until`.
    That is never earlier than `aged_at`. `because` says why it is later.
    """

    ref: Ref
    aged_at: datetime
    stays_until: datetime
    because: str = ""

    @property
    def is_held(self) -> bool:
        """Whether it stays for longer than its own age."""
        return self.aged_at < self.stays_until


def named(ref: Ref) -> NamedRef:
    """Return what a plan notes of a name."""
    return ref.name, ref.snapshot


def kind_of(ref: Ref) -> str:
    """Return the name with its kind, for messages."""
    return f"{'branch' if ref.is_branch else 'tag'} {ref.name!r}"


def ref_ages(
    metadata: TableMetadata,
    table_options: IcebergTableOptions,
    *,
    by_default: timedelta,
    flink_until: Mapping[str, datetime],
) -> Iterator[RefAge]:
    """Yield how long each name with an age stays. `by_default` is the age of names without one of their own.

    A branch may be published, or written to again, within `longest_outage`. `flink_until` has the branches with a Flink
    job, and the time until which such a job may look for its last commit.
    """
    for ref in metadata.refs:
        age = by_default if ref.max_ref_age is None else ref.max_ref_age
        head = metadata.by_id[ref.snapshot].at
        aged_at = later(head, age)
        if ref.name == MAIN or aged_at == FOR_EVER:
            continue
        outage = f"it is younger than longest_outage ({format_duration(table_options.longest_outage)})"
        reasons = [(aged_at, ""), (later(head, table_options.longest_outage), outage)]
        if ref.is_branch and ref.name in flink_until:
            reasons.append((flink_until[ref.name], "a sink that has committed to it may be restored"))
        reader = next((one.name for one in table_options.readers if ref.is_branch and one.branch == ref.name), None)
        if reader is not None:
            reasons.append((FOR_EVER, f"reader {reader} is declared on it"))
        stays_until, because = max(reasons, key=lambda one: one[0])
        yield RefAge(ref=ref, aged_at=aged_at, stays_until=stays_until, because=because)


def held(ages: Sequence[RefAge], now: datetime) -> Iterator[str]:
    """Yield why names stay although their own age is over."""
    for one in ages:
        if one.is_held and one.aged_at < now <= one.stays_until:
            yield f"{kind_of(one.ref)} stays although its max-ref-age-ms is over: {one.because}"
