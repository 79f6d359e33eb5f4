"""What an Iceberg table needs of each service, and what blocks it: all facts for the decision. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lakewarden.planners.formats.iceberg.backlog.backlog import NeedFacts, ServiceNeed, needs
from lakewarden.planners.formats.iceberg.backlog.blockers import blockers, two_vectors, unknown_to_java, warnings
from lakewarden.planners.formats.iceberg.backlog.memo import Holdings
from lakewarden.planners.formats.iceberg.catalogs.settings import RestCatalog, without_locks
from lakewarden.planners.formats.iceberg.metadata.manifests import Manifest
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.options.table_options import options_of
from lakewarden.planners.formats.iceberg.rewriting.deletes import kept_specs
from lakewarden.planners.formats.iceberg.writers.activity import kept_off_for_branches
from lakewarden.planners.formats.iceberg.writers.cold import kept_off, kept_off_by_time, next_silence, next_turn
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.instant import Service, Timeline
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import Backlog, Blocker, WriterActivity


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """What a view says of the services. `TableView` explains the fields. `changes_at` is the earliest moment at which
    time alone changes any of it. None if only a commit can change it.
    """

    backlogs: Mapping[Service, Backlog] = field(default_factory=dict)
    at_rest: Mapping[Service, NotDue] = field(default_factory=dict)
    waits: Mapping[Service, NotDue] = field(default_factory=dict)
    notes: Mapping[Service, tuple[str, ...]] = field(default_factory=dict)
    blockers: tuple[Blocker, ...] = ()
    warnings: tuple[str, ...] = ()
    changes_at: datetime | None = None


def needs_of(
    table: Table,
    metadata: TableMetadata,
    holdings: Holdings,
    manifests: Sequence[Manifest],
    activity: WriterActivity,
    *,
    timeline: Timeline,
    now: datetime,
    orphans_wait_until: datetime | None = None,
    others: Mapping[str, str] | None = None,
) -> Needs:
    """Return what the table needs, from the files of its current snapshot and from its `manifests`.

    If a service must wait for a writer or a branch, it has no backlog: it is at rest, and its commit waits.
    """
    options = options_of(table)
    kept = {
        **kept_off(timeline, activity, options, now),
        **kept_off_for_branches(metadata, options, now),
        **kept_off_by_time(metadata, now),
    }
    facts = NeedFacts(
        table=table,
        options=options,
        metadata=metadata,
        holdings=holdings,
        manifests=manifests,
        activity=activity,
        timeline=timeline,
        writes=[write.at for write in metadata.writes()],
        now=now,
        keeps=kept_specs(holdings.files, metadata, options, now),
        orphans_wait_until=orphans_wait_until,
        others=others or {},
    )
    by_service = {service: _kept_off(need, kept.get(service)) for service, need in needs(facts).items()}
    return Needs(
        backlogs={service: need.backlog for service, need in by_service.items() if need.backlog is not None},
        at_rest={service: need.rest for service, need in by_service.items() if need.rest is not None},
        waits=kept,
        notes={service: need.notes for service, need in by_service.items() if need.notes},
        blockers=(
            *blockers(metadata, options),
            *filter(None, [without_locks(metadata.properties, table.catalog)]),
            *two_vectors(holdings.files),
            *(() if isinstance(table.catalog, RestCatalog) else unknown_to_java(metadata)),
            *(need.blocker for need in by_service.values() if need.blocker is not None),
        ),
        warnings=(*warnings(metadata), *_rowless(holdings)),
        changes_at=_first(
            [need.changes_at for need in by_service.values()]
            + [wait.again_at for wait in kept.values()]
            + [next_turn(activity, options, now), next_silence(timeline, activity, now)],
            now,
        ),
    )


def _rowless(holdings: Holdings) -> Iterator[str]:
    if holdings.rowless:
        yield (
            f"{holdings.rowless} of its data files have no row according to their manifests, or an unknown number, as "
            "some imports write it. Rewrites leave them: Iceberg would refuse them, because they seem to add rows. "
            "Engines may skip a file that seems to have no row. If the files have rows, copy them under new names, "
            "remove them from the table, and add the copies with a current release of Iceberg (add_files). Do not add "
            "the files themselves again: a later expiry would delete them"
        )


def _kept_off(need: ServiceNeed, kept: NotDue | None) -> ServiceNeed:
    return need if kept is None or need.backlog is None else need.resting(kept)


def _first(moments: Iterable[datetime | None], now: datetime) -> datetime | None:
    return min((moment for moment in moments if moment is not None and moment > now), default=None)
