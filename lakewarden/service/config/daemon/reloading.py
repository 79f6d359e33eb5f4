"""Which keys of the configuration are read again while the daemon runs, and which at its start only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RELOADED = ("defaults", "policies", "tables")
"""The keys that are read again. All others are read at the start: ports, the store, workers, stores and catalogs."""


def at_start(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a document that are read at the start only."""
    return {key: value for key, value in written.items() if key not in RELOADED}


def merged(started_with: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document that a running daemon obeys: the new tables, and everything else as at its start."""
    return {**at_start(started_with), **{key: value for key, value in written.items() if key in RELOADED}}


def changed_keys(started_with: Mapping[str, Any], written: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys with another value than at the start of the daemon, such as `api.port`."""
    before, now = at_start(started_with), at_start(written)
    found = []
    for key in sorted({*before, *now}):
        one, other = before.get(key), now.get(key)
        if one == other:
            continue
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            found += [f"{key}.{below}" for below in sorted({*one, *other}) if one.get(below) != other.get(below)]
        else:
            found.append(key)
    return tuple(found)
