"""How the workers of a table are written in the configuration: the name of a profile, or routes to several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Route
from lakewarden.planners.settings import Settings, Size, Within, shown


class RouteSettings(Settings):
    """One route to the workers of a profile. A run takes it if all that it says is true of the run."""

    to: str
    """The `spark` profile with the workers that carry the run out."""

    formats: tuple[str, ...] = ()
    """The formats of the tables. The default is all."""

    tables: tuple[str, ...] = ()
    """The ids of the tables, or patterns of them, such as `sales.*`. The default is all."""

    labels: dict[str, str] = Field(default_factory=dict)
    """Labels that the tables have, all of them."""

    services: tuple[Service, ...] = ()
    """The services of the runs. The default is all."""

    plan_at_least: Annotated[Size, Within("1B", "1024TiB")] | None = None
    """The size of the plan: the bytes that have piled up for the service, or those of the pending plan that the run
    takes up, if it says them. If the size is not known, the run does not take the route.
    """

    def route(self) -> Route:
        """Return what it says of runs of tables of its formats."""
        return Route(
            spark=self.to,
            services=frozenset(self.services),
            plan_at_least=self.plan_at_least,
            tables=self.tables,
            labels=self.labels,
        )


class SparkRoutes(Settings):
    """The workers of a table: the first route that a run can take, or else those of one profile."""

    route: tuple[RouteSettings, ...] = ()
    """The routes, in the order in which they are tried. A service with `spark` of its own takes none."""

    otherwise: str = "default"
    """The profile of the runs that can take no route."""


def _as_routes(value: Any) -> Any:
    """Read the name of a profile as a group without routes."""
    if isinstance(value, str):
        return SparkRoutes(otherwise=value)
    if not isinstance(value, SparkRoutes | Mapping):
        raise ValueError(f"needs the name of a spark profile, or route and otherwise below it, not {shown(value)}")  # noqa: TRY004 - the error type of pydantic
    return value


SparkSetting = Annotated[SparkRoutes, BeforeValidator(_as_routes, json_schema_input_type=str | SparkRoutes)]
