"""How much each table needs an operator. The tables that need one most have series of their own. Pure."""

from __future__ import annotations

from lakewarden.service.reporting.metrics import families as of
from lakewarden.service.reporting.metrics.families import Family
from lakewarden.service.reporting.metrics.table_figures import Figures
from lakewarden.service.reporting.metrics.table_limit import Rank

_SIGNS = {
    of.POLL_FAILING: 1.0,
    of.APPROVALS: 1.0,
    of.BLOCKED: 1.0,
    of.LOCK_PROVED: -1.0,
}
"""What an operator has to act on. A lock that was disproved has the value -1."""


def rank_of(seen: Figures, stored_figures: Figures) -> Rank:
    """Return first what an operator has to act on, then how long the oldest plan is pending, then the backlog in bytes,
    then the commits since the services ran.
    """
    waiting, first, size, commits = 0.0, float("inf"), 0.0, 0.0
    for figures in (stored_figures, seen):
        for (family, _), value in figures.pairs():
            waiting += max(0.0, _sign(family) * value)
            if family is of.FIRST_PENDING:
                first = min(first, value)
            elif family is of.BACKLOG_BYTES:
                size += value
            elif family is of.COMMITS_SINCE:
                commits += value
    return (waiting, -first, size, commits)


def _sign(family: Family) -> float:
    return _SIGNS.get(family, 0.0)
