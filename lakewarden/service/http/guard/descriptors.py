"""The files that the process may have open, of which connections are the most: clients never take those of the rest."""

from __future__ import annotations

import resource

from lakewarden.service.config.http_limits import MANAGEMENT_LIMITS, LimitSettings

WANTED = 65_536
_OURS = 384
"""Workers, readers, the store, the log, tables that are read, and the management port's clients beside their own."""

_FEWEST = 8


def raise_descriptors() -> int:
    """Let the process open as many files as the system allows, up to some ten thousand; return how many those are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft if soft != resource.RLIM_INFINITY else WANTED
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def affordable(limits: LimitSettings, *, descriptors: int, ports: int = 1) -> LimitSettings:
    """Return limits whose connections, on each of so many ports, leave enough of `descriptors` for the daemon."""
    room = max(_FEWEST, (descriptors - _OURS - MANAGEMENT_LIMITS.connections) // ports)
    return limits.model_copy(update={"connections": min(limits.connections, room)})
