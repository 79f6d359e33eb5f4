"""Durations and sizes in a readable form."""

from __future__ import annotations


def span(seconds: float) -> str:
    """Return a duration in up to two units: `450ms`, `12s`, `3m 20s`, `2h 5m`, `4d 1h`."""
    if abs(seconds) < 1:
        return f"{round(seconds * 1000)}ms"
    whole = int(seconds)
    for unit, larger, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if abs(whole) >= larger:
            return f"{whole // larger}{unit} {whole % larger // part}{smaller}"
    return f"{whole}s"


def size(count: float) -> str:
    """Return bytes in their largest unit, rounded to one decimal: `12 B`, `1.5 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
