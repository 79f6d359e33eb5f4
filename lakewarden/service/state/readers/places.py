"""The part of a location that may hang: its mount, bucket or catalog."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_MOUNT_POINT = 4
_OCTAL = re.compile(r"\\([0-7]{3})")


def place_of(location: str) -> str:
    """Return the bucket, container, host or catalog of a canonical location. For a local path, return its mount point.

    The mount points are those of the first call. No storage is asked.
    """
    scheme, separator, rest = location.partition("://")
    if separator:
        return f"{scheme}://{rest.partition('/')[0]}"
    return next((mount for mount in _mount_points() if location == mount or location.startswith(f"{mount}/")), "/")


@lru_cache(maxsize=1)
def _mount_points() -> tuple[str, ...]:
    """Return the mount points but the root, the longest first. Source: proc(5), mountinfo, field 5."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ()
    points = {_OCTAL.sub(lambda code: chr(int(code[1], 8)), line.split()[_MOUNT_POINT]) for line in lines if line}
    return tuple(sorted(points - {"/"}, key=len, reverse=True))
