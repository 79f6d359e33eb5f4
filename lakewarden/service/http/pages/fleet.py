"""`/`: all tables, what runs, and what needs a person."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import translate
from typing import Annotated

from fastapi import FastAPI, Query, Request
from fastapi.responses import HTMLResponse

from lakewarden.planners.model.clock import Clock
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.roles import caller_of, needs
from lakewarden.service.http.pages.answer import Rendering, address
from lakewarden.service.http.query.lists import has_label
from lakewarden.service.model.access import Role
from lakewarden.service.page.facts import SORTS, Condition, FactsOfTables, TableFacts, fleet

_ROWS = 100
_RUNNING = 50

_Text = Annotated[str, Query(max_length=1000)]
_Sort = Enum("_Sort", {name: name for name in SORTS}, type=str)  # type: ignore[misc]


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedTables:
    """The tables that a person asks for. An empty text asks for all."""

    search: str = ""
    format: str = ""
    condition: str = ""
    label: str = ""
    sort: str = "worst"

    def chosen(self, facts: Iterable[TableFacts]) -> Sequence[TableFacts]:
        """Return the tables that are asked for, in the order that is asked for."""
        pattern = self.search if "*" in self.search or "?" in self.search else f"*{self.search}*"
        matches = re.compile(translate(pattern)).match if self.search else None
        return sorted(
            [fact for fact in facts if (matches is None or matches(fact.id)) and self._admits(fact)],
            key=SORTS[self.sort],
        )

    def _admits(self, facts: TableFacts) -> bool:
        return (
            self.format in ("", facts.format)
            and self.condition in ("", facts.condition.name.lower())
            and (not self.label or has_label(facts.labels, self.label))
        )


def add_fleet(app: FastAPI, plane: ControlPlane, clock: Clock, rendering: Rendering) -> None:
    """Add the page."""
    remembered = FactsOfTables()

    @app.get("/", include_in_schema=False, openapi_extra=needs(Role.VIEWER))
    def tables(
        *,
        request: Request,
        search: _Text = "",
        format: _Text = "",  # noqa: A002 - the name of the parameter
        condition: _Text = "",
        label: _Text = "",
        sort: _Sort = _Sort.worst,  # type: ignore[attr-defined]
        page: Annotated[int, Query(ge=1, le=10_000)] = 1,
    ) -> HTMLResponse:
        """Return the page of all tables for which the caller is a viewer."""
        caller, now = caller_of(request), clock.now()
        facts = remembered.of(plane.tables())
        if not caller.reaches_everything:
            facts = [fact for fact in facts if caller.reaches(fact.id)]
        query = AskedTables(search=search, format=format, condition=condition, label=label, sort=sort.value)
        chosen, first = query.chosen(facts), (page - 1) * _ROWS
        capacities, health = tuple(plane.capacities().values()), plane.health()
        return rendering.page(
            request,
            "fleet",
            now=now,
            here="fleet",
            fleet=fleet(facts),
            asked=query,
            sorts=tuple(SORTS),
            conditions=tuple(reversed(Condition)),
            tables=chosen[first : first + _ROWS],
            found=len(chosen),
            running=sorted([run for fact in facts for run in fact.active], key=lambda run: run.created_at)[:_RUNNING],
            waiting=plane.waiting(),
            doing=plane.progress(),
            slots=sum(capacity.slots for capacity in capacities),
            slots_used=sum(capacity.in_use for capacity in capacities),
            unready=(*health.unready, *health.notes),
            previous=address(request, page=page - 1) if page > 1 else None,
            next=address(request, page=page + 1) if len(chosen) > first + _ROWS else None,
        )
