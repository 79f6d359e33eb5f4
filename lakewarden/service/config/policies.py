"""What is written of a policy becomes one, with the triggers that each service has by default."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import DeletionBudget, Policy
from lakewarden.planners.settings import Settings
from lakewarden.planners.triggers import NumCommits, NumRewrites, TimeElapsed, Trigger, WhenAsked
from lakewarden.service.config.settings import BudgetSettings, ServiceSettings

_TRIGGERS: Mapping[Service, Trigger] = {
    Service.COMPACTION: NumCommits(at_least=5),
    Service.LOG_COMPACTION: NumCommits(at_least=5),
    Service.CLUSTERING: NumCommits(at_least=4),
    Service.ARCHIVE: NumCommits(at_least=10),
    Service.TTL: TimeElapsed(at_least=timedelta(days=1)),
    Service.SAVEPOINT: TimeElapsed(at_least=timedelta(days=1)),
    Service.CATALOG_SYNC: TimeElapsed(at_least=timedelta(minutes=5)),
    Service.ORPHANS: TimeElapsed(at_least=timedelta(days=1)),
    Service.METADATA_VALIDATION: WhenAsked(),
    Service.METADATA_REBUILD: WhenAsked(),
}
_OTHERWISE: Trigger = NumCommits(at_least=1)
_AFTER_A_REWRITE: Trigger = NumRewrites(at_least=1)


def policy_of(service: Service, settings: ServiceSettings, options: Settings | None, *, priority: int = 0) -> Policy:
    """Return the policy that is written down, with options of the type that the format has for the service; `priority`
    is the table's.
    """
    return Policy(
        trigger=_trigger(service, settings),
        options=options,
        schedule=settings.schedule,
        grace=settings.grace,
        window=None if settings.window is None else settings.window.window(),
        beside=settings.asynchronous,
        priority=priority if settings.priority is None else settings.priority,
        spark=settings.spark,
        session={str(key): value for key, value in settings.session.items()},
    )


def _trigger(service: Service, settings: ServiceSettings) -> Trigger:
    if not settings.asynchronous:
        return _AFTER_A_REWRITE
    return settings.trigger if settings.trigger is not None else _TRIGGERS.get(service, _OTHERWISE)


def budget_of(settings: BudgetSettings) -> DeletionBudget:
    """Return the budget that is written down."""
    return DeletionBudget(files=settings.files, percent=settings.percent, partitions=settings.partitions)
