"""What one level says about a table, and what several levels say together. Pure.

A patch is a tree. A leaf replaces what a more general level says. A mapping is merged key by key. A mapping that is a
whole value replaces, too. `combined` is associative, so the levels may be combined in any grouping.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from lakewarden.planners.model.table import SettingOrigin
from lakewarden.service.config.document import WrittenKeys
from lakewarden.service.config.problems import KeyPath

KINDS = ("provider", "type")
"""A mapping that names its kind by one of these keys is a whole value: the keys of one lock mean nothing to another."""

WHOLE = ("trigger", "window")
"""Settings of a service that are one value, although they are written as a mapping."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Patch:
    """One value of one level, or of several. `parts` are the values below a mapping. `whole`: it replaces."""

    value: Any = None
    parts: Mapping[str, Patch] | None = None
    whole: bool = False
    origin: SettingOrigin | None = None


NOTHING = Patch(parts={})
"""What a level says that says nothing."""


def combined(general: Patch, special: Patch) -> Patch:
    """Return what both say. Where they contradict each other, the special one counts."""
    if special.whole or special.parts is None:
        return special
    if general.parts is None:
        return Patch(parts=special.parts, whole=True, origin=special.origin)
    parts = dict(general.parts)
    for key, below in special.parts.items():
        parts[key] = combined(parts[key], below) if key in parts else below
    return Patch(parts=parts, whole=general.whole, origin=special.origin or general.origin)


def of_levels(*levels: Patch) -> Patch:
    """Return what the levels say together, from the most general to the most special."""
    return reduce(combined, levels, NOTHING)


def patch_of(value: Any, level: str, *, relative_to: int | None = None, at: KeyPath = ()) -> Patch:
    """Return what a level says with a value of the document.

    `relative_to` is the first line of the entry of a table. Lines are then counted from there, so entries of the same
    form have equal origins.
    """
    return _patch(value, SettingOrigin(level=level, relative=relative_to is not None), relative_to or 0, at)


def _patch(value: Any, origin: SettingOrigin, first: int, at: KeyPath) -> Patch:
    if not isinstance(value, Mapping):
        return Patch(value=value, whole=True, origin=origin)
    lines = value.lines() if isinstance(value, WrittenKeys) else {}
    parts = {}
    for key, below in value.items():
        line = lines.get(key)
        here = SettingOrigin(
            level=origin.level, line=origin.line if line is None else line - first, relative=origin.relative
        )
        parts[key] = _patch(below, here, first, (*at, key))
    whole = any(key in value for key in KINDS) or at[-1:] in [(key,) for key in WHOLE]
    return Patch(parts=parts, whole=whole, origin=origin)


def plain(patch: Patch) -> Any:
    """Return the value as a document would have it."""
    return patch.value if patch.parts is None else {key: plain(below) for key, below in patch.parts.items()}


def origins(patch: Patch, at: str = "") -> Iterator[tuple[str, SettingOrigin]]:
    """Yield the origin of each value, by its key (`services.clean.trigger`). A mapping has one, too."""
    if patch.origin is not None and at:
        yield at, patch.origin
    for key, below in (patch.parts or {}).items():
        yield from origins(below, f"{at}.{key}" if at else key)
