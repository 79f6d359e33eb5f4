"""A commit hook that was received, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakewarden.planners.model.table import TableId


@dataclass(frozen=True, kw_only=True, slots=True)
class HeardHook:
    """A hook. `result` is what became of it, and `tables` are observed for it.

    `traceparent` is the header of its request that names the span of its sender (W3C Trace Context). It is not checked.
    """

    sender: str
    result: str
    tables: tuple[TableId, ...] = ()
    traceparent: str | None = None


OnHook = Callable[[HeardHook], None]
"""Gets every hook. It must return at once."""
