"""The part of the chart's schema that the daemon's settings dictate: `python -m helm.schema` writes it anew.

Helm then refuses a key that the daemon does not know and a number beyond its bounds before anything is installed, and
says what each key means. What else may stand there is the daemon's to judge: it names every problem at its start.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from lakewarden.service.config.settings import Configuration

SCHEMA = Path(__file__).parent / "lakewarden" / "values.schema.json"

OWNED = {
    "DaemonSettings": ("data_dir", "drain"),
    "AccessSettings": ("authentication",),
    "ApiSettings": ("host", "port"),
    "Configuration": ("management",),
}
"""Keys that the chart sets itself, by their group: a value for one of them would contradict another one."""

_HERE = "#/$defs/"
_THERE = "#/$defs/daemon/"
_NOTHING = {"type": "null"}


def definitions() -> dict[str, Any]:
    """Return what stands under `$defs/daemon`: every group of settings by its name, with its keys and meanings."""
    whole = Configuration.model_json_schema()
    groups = {name: group for name, group in whole["$defs"].items() if "properties" in group}
    groups["Configuration"] = whole
    found = {name: _group(group, groups) for name, group in sorted(groups.items())}
    for name, keys in OWNED.items():
        for key in keys:
            del found[name]["properties"][key]
    return found


def _group(schema: dict[str, Any], groups: Collection[str]) -> dict[str, Any]:
    return {
        **_described(schema),
        "type": "object",
        "additionalProperties": schema["additionalProperties"],
        "required": schema.get("required", []),
        "properties": {key: _described(value) | _value(value, groups) for key, value in schema["properties"].items()},
    }


def _value(schema: Any, groups: Collection[str]) -> dict[str, Any]:
    """Return what is known of a value: how it leads to other groups, or between which bounds a number lies."""
    match schema:
        case {"minimum": least, "maximum": most}:
            return {"minimum": least, "maximum": most}
        case {"$ref": str(reference)} if reference.removeprefix(_HERE) in groups:
            return {"$ref": reference.replace(_HERE, _THERE)}
        case {"items": one} if found := _value(one, groups):
            return {"type": "array", "items": found}
        case {"additionalProperties": one} if found := _value(one, groups):
            return {"type": "object", "additionalProperties": found}
        case {"patternProperties": named}:
            values = {pattern: _value(one, groups) for pattern, one in named.items()}
            return {"type": "object", "additionalProperties": False, "patternProperties": values}
        case {"anyOf": list(choices)} | {"oneOf": list(choices)}:
            leads = [one if one == _NOTHING else _value(one, groups) for one in choices]
            return {"anyOf": leads} if all(leads) else {}
    return {}


def _described(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": " ".join(schema["description"].split())} if "description" in schema else {}


def main() -> None:
    """Write the definitions into the chart's schema, and leave the rest of it alone."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    schema["$defs"]["daemon"] = definitions()
    SCHEMA.write_text(json.dumps(schema, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
