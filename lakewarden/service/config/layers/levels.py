"""The levels of the settings of one table: defaults < policy < pattern < table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakewarden.planners.model.table import SettingOrigin
from lakewarden.planners.settings import shown
from lakewarden.service.config.document import WrittenKeys
from lakewarden.service.config.layers.patches import NOTHING, Patch, of_levels, origins, patch_of, plain
from lakewarden.service.config.layers.templates import NAMES, templates_in
from lakewarden.service.config.problems import KeyPath, Problem
from lakewarden.service.config.settings import OFF, CareSettings

DEFAULTS, TABLE = "defaults", "table"
_CARE = frozenset(CareSettings.model_fields)


@dataclass(frozen=True, kw_only=True, slots=True)
class Level:
    """What one level says: its name, its key in the document, the policy that it names, and its patch."""

    name: str
    at: KeyPath
    policy: str | None
    patch: Patch


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolved:
    """The settings of a table: their values as in a document, where each comes from, and the keys of the levels."""

    values: Mapping[str, Any]
    sources: Mapping[str, SettingOrigin]
    levels: Mapping[str, KeyPath] = field(default_factory=dict)
    templates: bool = False

    def written_at(self, key: KeyPath) -> KeyPath | None:
        """Return the key of the document behind a setting. None if no level says it."""
        for length in range(len(key), 0, -1):
            origin = self.sources.get(".".join(map(str, key[:length])))
            if origin is not None and origin.level in self.levels:
                return (*self.levels[origin.level], *key)
        return None


def level_of(written: Any, name: str, at: KeyPath, *, of_a_table: bool = False) -> Level:
    """Return what an entry of the document says as a level. Its lines are relative if it is the entry of a table."""
    if not isinstance(written, Mapping):
        return Level(name=name, at=at, policy=None, patch=NOTHING)
    first = written.line if of_a_table and isinstance(written, WrittenKeys) else None
    parts = patch_of(written, name, relative_to=first).parts or {}
    patch = {key: _without_empty_groups(key, part) for key, part in parts.items() if key in _CARE and _says(key, part)}
    policy = written.get("policy")
    return Level(name=name, at=at, policy=policy if isinstance(policy, str) else None, patch=Patch(parts=patch))


def resolved(*levels: Level) -> Resolved:
    """Return what the levels say together, from the most general to the most special."""
    whole = of_levels(*(level.patch for level in levels))
    values: dict[str, Any] = plain(whole)
    services = values.get("services")
    if isinstance(services, Mapping):
        values["services"] = {name: policy for name, policy in services.items() if policy is not False}
    return Resolved(
        values=values,
        sources=dict(origins(whole)),
        levels={level.name: level.at for level in levels},
        templates=any(True for _ in templates_in(whole)),
    )


def unknown_names(level: Level) -> Iterator[Problem]:
    """Yield the names in braces that there are not."""
    for at, name in templates_in(level.patch):
        if name not in NAMES:
            allowed = ", ".join(f"{{{NAME}}}" for NAME in NAMES)
            yield Problem(at=(*level.at, *at), sentence=f"{shown(f'{{{name}}}')} is not a placeholder: write {allowed}")


def _says(key: str, patch: Patch) -> bool:
    """Whether a setting says anything. A key without a value does not, except `contact: null`."""
    return key == "contact" or patch.parts is not None or patch.value is not None


def _without_empty_groups(key: str, patch: Patch) -> Patch:
    """Return the services of an entry. `compaction:` says that there is one. `compaction: false` says that there is
    none.
    """
    if key != "services" or patch.parts is None:
        return patch
    return replace(patch, parts={name: _service(policy) for name, policy in patch.parts.items()})


def _service(policy: Patch) -> Patch:
    if policy.parts is None:
        if policy.value is None:
            return Patch(parts={}, origin=policy.origin)
        return replace(policy, value=False) if policy.value in OFF else policy
    kept = {
        key: part
        for key, part in policy.parts.items()
        if not (key in ("options", "session") and part.parts is None and part.value is None)
    }
    return replace(policy, parts=kept)
