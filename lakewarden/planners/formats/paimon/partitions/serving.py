"""What the services on partitions have to do on a table that was looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lakewarden.planners.formats.paimon.backlog.manifests_read import Memo
from lakewarden.planners.formats.paimon.backlog.needs import NeedFacts
from lakewarden.planners.formats.paimon.catalogs.settings import keeps_commits_apart
from lakewarden.planners.formats.paimon.options.service_options import PartitionCommitOptions, TtlOptions
from lakewarden.planners.formats.paimon.options.table_options import own_options
from lakewarden.planners.formats.paimon.partitions.expiry import (
    DoneRule,
    PartitionTerm,
    done_rule,
    marking_needs,
    marking_of,
    term_of,
    ttl_needs,
)
from lakewarden.planners.formats.paimon.partitions.names import marker_file
from lakewarden.planners.formats.paimon.writers import Done
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import Blocker, ServiceNeeds
from lakewarden.planners.ports import Storage


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """The needs of each service that the table has, its blockers, the markers that are known, and the files by which a
    look notices that the marking goes on.
    """

    needs: Mapping[Service, ServiceNeeds] = field(default_factory=dict)
    blockers: tuple[Blocker, ...] = ()
    marked: Mapping[bytes, Done] = field(default_factory=dict)
    watched: tuple[str, ...] = ()

    @property
    def changes_at(self) -> datetime | None:
        """Return when time alone may change any of it."""
        return min((need.changes_at for need in self.needs.values() if need.changes_at is not None), default=None)


def is_served(table: Table) -> bool:
    """Whether a service of the table asks when rows came into its partitions."""
    return any(service in table.policies for service in (Service.PARTITION_COMMIT, Service.TTL))


def served(table: Table, facts: NeedFacts, memo: Memo, storage: Storage) -> Served:
    """Return what there is to do. Markers are read of tables that may be marked alone."""
    needs, blockers = dict[Service, ServiceNeeds](), list[Blocker]()
    marked, watched = memo.marked, tuple[str, ...]()
    for service in (Service.PARTITION_COMMIT, Service.TTL):
        if service not in table.policies:
            continue
        rule = _rule_or_blocker(table, facts, service)
        if isinstance(rule, Blocker):
            blockers.append(rule)
        elif rest := _nothing_there(facts):
            needs[service] = ServiceNeeds(rest=NotDue(reason=rest))
        elif memo.totals is None or facts.changes is None:
            continue
        elif isinstance(rule, PartitionTerm):
            needs[service] = ttl_needs(memo.totals, facts.schema, facts.changes, rule, facts.now)
        elif keeps_commits_apart(table.catalog, table.location):
            marking = marking_of(
                memo.totals,
                facts.schema,
                facts.changes,
                rule,
                facts.now,
                location=table.location,
                storage=storage,
                known=memo.marked,
            )
            needs[service] = marking_needs(marking, facts.changes, facts.now)
            marked = marking.known
            watched = tuple(
                marker_file(table.location, partition) for partition in (*marking.due[:1], *marking.due[-1:])
            )
    return Served(needs=needs, blockers=tuple(blockers), marked=marked, watched=watched)


def _nothing_there(facts: NeedFacts) -> str | None:
    if not facts.schema.partition_keys:
        return "the table has no partitions"
    return "nothing was ever committed to the table" if facts.history.newest is None else None


def rule_of_marking(table: Table, facts: NeedFacts) -> DoneRule | None:
    """Return when a partition of a registered table is done. Raises ValueError."""
    return done_rule(facts.schema, table.options_of(Service.PARTITION_COMMIT, PartitionCommitOptions))


def term_of_table(table: Table, facts: NeedFacts) -> PartitionTerm | None:
    """Return how long a partition of a registered table is kept. Raises ValueError."""
    return term_of(facts.schema, table.options_of(Service.TTL, TtlOptions), own_options(table))


def _rule_or_blocker(table: Table, facts: NeedFacts, service: Service) -> DoneRule | PartitionTerm | Blocker:
    find: Callable[[Table, NeedFacts], DoneRule | PartitionTerm | None]
    if service is Service.TTL:
        find, option, own = term_of_table, "partition.expiration-time", "services.ttl.options.retain"
    else:
        find, option, own = (
            rule_of_marking,
            "partition.idle-time-to-done",
            "services.partition_commit.options.idle_time",
        )
    services = frozenset({service})
    try:
        rule = find(table, facts)
    except ValueError as wrong:
        reason = f"the options of the table about its partitions are not read here: {str(wrong)[:200]}"
        remedy = f"set the options of services.{service} in their place, or remove the service"
        return Blocker(code="settings_refused", reason=reason, remedy=remedy, services=services)
    if rule is None:
        reason = f"neither {own} nor the table's {option} is set"
        return Blocker(code="setting_missing", reason=reason, remedy="set one of them, as in 1d", services=services)
    return rule
