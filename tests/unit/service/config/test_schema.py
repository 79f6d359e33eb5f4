"""The schema of the configuration, which Helm checks values by and shows."""

from __future__ import annotations

from lakewarden.service.config.settings import Configuration

SCHEMA = Configuration.model_json_schema()
GROUPS = {**SCHEMA["$defs"], "Configuration": SCHEMA}


def test_every_setting_says_what_it_means() -> None:
    """A setting has a description of its own, or it is a group with one."""
    silent = [
        f"{name}.{key}"
        for name, group in GROUPS.items()
        for key, value in group.get("properties", {}).items()
        if not (value.get("description") or GROUPS[value["$ref"].rpartition("/")[2]].get("description"))
    ]

    assert sum(len(group.get("properties", {})) for group in GROUPS.values()) > 100
    assert silent == []
