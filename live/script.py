"""What is asked of one run of the suite."""

from __future__ import annotations

from dataclasses import dataclass

EACH_SUCCEEDS = 3
"""How often every service has to succeed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """The least commits of the writers, and when to give up; `only` are the services, None for all."""

    commits: int
    minutes: float
    only: frozenset[str] | None = None
