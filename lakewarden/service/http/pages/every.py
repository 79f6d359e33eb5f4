"""Every page, on one application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI

from lakewarden.planners.model.clock import Clock
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.callers import Identify
from lakewarden.service.http.live.etags import LiveRuns
from lakewarden.service.http.pages.answer import Rendering
from lakewarden.service.http.pages.fleet import add_fleet
from lakewarden.service.http.pages.runs import add_runs
from lakewarden.service.http.pages.sign_in import add_sign_in
from lakewarden.service.http.pages.table import WriterPart, add_table

if TYPE_CHECKING:
    from lakewarden.service.state.sign_in import SignIns


def add_pages(
    app: FastAPI,
    plane: ControlPlane,
    *,
    clock: Clock,
    identify: Identify | None,
    sign_ins: SignIns | None,
    live: LiveRuns,
    writers: WriterPart,
) -> None:
    """Add the pages for operators, and the form to sign in."""
    rendering = Rendering(clock)
    add_fleet(app, plane, clock, rendering)
    add_table(app, plane, clock, rendering, writers)
    add_runs(app, plane, rendering, live)
    add_sign_in(app, identify, sign_ins, rendering)
