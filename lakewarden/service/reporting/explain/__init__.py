"""Explain: why the services of a table run or do not, put together from what the daemon knows anyway."""

from lakewarden.service.reporting.explain.assembly import explain
from lakewarden.service.reporting.explain.bodies import TableExplanation
from lakewarden.service.reporting.explain.text import written_out
from lakewarden.service.reporting.explain.words import describe

__all__ = ["TableExplanation", "describe", "explain", "written_out"]
