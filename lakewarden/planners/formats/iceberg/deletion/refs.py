"""Which branches and tags may expire: those with an age (`max-ref-age-ms`), if nothing else needs them. Pure.

As in Iceberg's `RemoveSnapshots`, a name is as old as the snapshot for which it stands, and main has no age.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.planners.decoding.json_stream import counted
from lakewarden.planners.formats.iceberg.metadata.files import VanishedError, read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import FOR_EVER, MAIN, Ref, TableMetadata, later
from lakewarden.planners.formats.iceberg.metadata.parsing import span
from lakewarden.planners.formats.iceberg.options.service_options import CleanOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import KeptMore
from lakewarden.planners.ports import Storage
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
        reader = next(
            (
                declared_reader.name
                for declared_reader in table_options.readers
                if ref.is_branch and declared_reader.branch == ref.name
            ),
            None,
        )
        if reader is not None:
            reasons.append((FOR_EVER, f"reader {reader} is declared on it"))
        stays_until, because = max(reasons, key=lambda reason: reason[0])
        yield RefAge(ref=ref, aged_at=aged_at, stays_until=stays_until, because=because)


def held(ages: Sequence[RefAge], now: datetime) -> Iterator[str]:
    """Yield why names stay although their own age is over."""
    for age in ages:
        if age.is_held and age.aged_at < now <= age.stays_until:
            yield f"{kind_of(age.ref)} stays although its max-ref-age-ms is over: {age.because}"


# Names that were lost with the snapshots of an expiry, because they were made between its last look and its commit.
#
# Only a catalog that applies changes to the table as it is by then can lose them. The log of earlier metadata files
# shows the version to which the expiry was applied.


@dataclass(frozen=True, kw_only=True, slots=True)
class LostRefs:
    """The names that stood for snapshots of the expiry, in the version `before` it. That is the path of a metadata
    file. It is None if the log does not reach so far back. Then it is not known whether a name was lost.
    """

    before: str | None
    refs: tuple[Ref, ...] = ()


def lost_refs(
    expired: Collection[int], chosen: Collection[NamedRef], metadata: TableMetadata, storage: Storage
) -> LostRefs:
    """Return the names that were lost with the `expired` snapshots. `metadata` is a version after the expiry, and
    `chosen` are the names that were to go. A name that exists by now is not lost.

    Raises CorruptMetadataError, PermanentError and TemporaryError if an earlier version cannot be read.
    """
    there = {ref.name for ref in metadata.refs}
    for file in reversed(metadata.metadata_log):
        try:
            earlier = read_table(file, storage, told=metadata.told)
        except VanishedError:
            break
        if any(snapshot in earlier.by_id for snapshot in expired):
            lost = (ref for ref in earlier.refs if ref.snapshot in expired and ref.name not in there)
            return LostRefs(before=file, refs=tuple(ref for ref in lost if (ref.name, ref.snapshot) not in chosen))
    return LostRefs(before=None)


# Whether the policy of clean keeps less than the properties of the table say. Readers may count on those. Pure.

_AGE = "history.expire.max-snapshot-age-ms"
_COUNT = "history.expire.min-snapshots-to-keep"


def kept_more(table: Table, properties: Mapping[str, str]) -> Mapping[Service, KeptMore]:
    """Return what the properties keep and the policy does not. A property that is not set, or is no number, keeps
    nothing.
    """
    policy = table.policies.get(Service.CLEAN)
    options = None if policy is None else policy.options
    if not isinstance(options, CleanOptions):
        return {}
    sentences = [
        *_age(options, counted(properties.get(_AGE, ""))),
        *_count(options, counted(properties.get(_COUNT, ""))),
    ]
    return {Service.CLEAN: KeptMore(says=" and ".join(sentences))} if sentences else {}


def _age(options: CleanOptions, stated: int | None) -> Iterator[str]:
    age = options.max_snapshot_age
    if age is not None and stated is not None and age < (kept := span(stated)):
        yield f"the policy keeps snapshots of {format_duration(age)}, where {_AGE} says {_in_words(kept)}"


def _count(options: CleanOptions, stated: int | None) -> Iterator[str]:
    least = options.min_snapshots_to_keep
    if least is not None and stated is not None and least < stated:
        yield f"the policy keeps at least {least:,} snapshots, where {_COUNT} says {stated:,}"


def _in_words(kept: timedelta) -> str:
    return "for ever" if kept > timedelta(days=36_500) else format_duration(kept)
