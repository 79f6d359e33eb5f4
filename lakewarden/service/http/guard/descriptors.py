"""The files that the process may have open. Most of them are connections. Clients never take the files of other
parts.
"""

from __future__ import annotations

import resource

from lakewarden.service.config.daemon.http_limits import MANAGEMENT_LIMITS, LimitSettings

WANTED = 65_536
_OURS = 384
"""The files of workers, readers, the store, the log and tables, and a reserve for the management port."""

_FEWEST = 8


def raise_descriptors() -> int:
    """Raise the limit of open files as far as the system allows, up to `WANTED`. Return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft if soft != resource.RLIM_INFINITY else WANTED
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def affordable(limits: LimitSettings, *, descriptors: int, ports: int = 1) -> LimitSettings:
    """Return limits on connections that leave enough of `descriptors` for the daemon, on each of so many ports."""
    room = max(_FEWEST, (descriptors - _OURS - MANAGEMENT_LIMITS.connections) // ports)
    return limits.model_copy(update={"connections": min(limits.connections, room)})
