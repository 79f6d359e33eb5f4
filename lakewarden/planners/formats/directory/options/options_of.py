"""What the owner of a directory has set for one service."""

from __future__ import annotations

from typing import TypeVar

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.settings import Settings

_Options = TypeVar("_Options", bound=Settings)


def options_of(table: Table, service: Service, kind: type[_Options]) -> _Options:
    """Return the options of the service's policy, or the defaults if there is no policy."""
    policy = table.policies.get(service)
    options = None if policy is None else policy.options
    return options if isinstance(options, kind) else kind()
