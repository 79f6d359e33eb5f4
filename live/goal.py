"""What one run of the suite must reach."""

from __future__ import annotations

from dataclasses import dataclass

EACH_SUCCEEDS = 3
"""How often every service must succeed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """The least number of commits of the writers, and when to give up. `only` are the services, None for all."""

    commits: int
    minutes: float
    only: frozenset[str] | None = None
