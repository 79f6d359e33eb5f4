"""The settings of a policy become a policy. The traits of a service have its default trigger."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import DeletionBudget, Policy, SettingOrigin
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.services import SERVICES
from lakewarden.planners.settings import Settings
from lakewarden.planners.triggers import NumRewrites, Trigger
from lakewarden.service.config.daemon import Asking, BudgetSettings
from lakewarden.service.config.layers.service_settings import ServiceSettings

_AFTER_A_REWRITE: Trigger = NumRewrites(at_least=1)


def policy_of(service: Service, settings: ServiceSettings, options: Settings | None, *, priority: int = 0) -> Policy:
    """Return the policy of the settings. `options` have the type that the format declares for the service.

    `priority` is that of the table.
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


def first_policies(table_format: TableFormat) -> Mapping[Service, Policy]:
    """Return the policies that the services of a first configuration have: with each default of the daemon."""
    return {
        service: policy_of(service, ServiceSettings(), table_format.services[service]())
        for service in table_format.first_services
    }


def _trigger(service: Service, settings: ServiceSettings) -> Trigger:
    if not settings.asynchronous:
        return _AFTER_A_REWRITE
    return settings.trigger if settings.trigger is not None else SERVICES[service].trigger


def inherited(sources: Mapping[str, SettingOrigin], services: Collection[Service]) -> Mapping[str, SettingOrigin]:
    """Return where the settings of a table come from. Some settings of a service are those of its table."""
    given = {**sources, "zone": SettingOrigin(level="profile")}
    for service in services:
        for key in ("priority", "spark"):
            if f"services.{service}.{key}" not in given and key in given:
                given[f"services.{service}.{key}"] = given[key]
    return given


def budget_of(settings: BudgetSettings) -> DeletionBudget:
    """Return the budget of the settings."""
    return DeletionBudget(
        files=settings.files,
        percent=settings.percent,
        partitions=settings.partitions,
        asks_first=settings.first_clean is Asking.ASK,
        asks_shorter=settings.shorter_retention is Asking.ASK,
    )
