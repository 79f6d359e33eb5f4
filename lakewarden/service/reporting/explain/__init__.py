"""Explain: why the services of a table run or do not. It uses only what the daemon knows already."""

from lakewarden.service.reporting.explain.assembly import PastExplanation, explain, explain_past
from lakewarden.service.reporting.explain.bodies import TableExplanation
from lakewarden.service.reporting.explain.text import written_out

__all__ = ["PastExplanation", "TableExplanation", "explain", "explain_past", "written_out"]
