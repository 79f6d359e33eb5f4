"""The configuration for requests. It is shown without secrets: these are places already, and values with the names of
secrets are hidden. It can be read again, and tables can be registered beside it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from lakewarden.planners.model.printable import REDACTED, names_a_secret, without_credentials
from lakewarden.service.config.settings import Configuration
from lakewarden.service.model.registrations import Registering, Reloading

_PLACES = frozenset({"env", "file"})


class Redacted:
    """The configuration without secrets. It is kept compressed: with thousands of tables its values need much memory,
    and few requests ask for them.
    """

    def __init__(self, settings: Configuration) -> None:
        self.show(settings)

    def show(self, settings: Configuration) -> None:
        """Show this configuration from now on."""
        content = _without_secrets(settings.model_dump(mode="json", by_alias=True), cache(without_credentials))
        self._content = zlib.compress(json.dumps(content).encode())

    def values(self) -> dict[str, Any]:
        """Return its values as JSON has them."""
        values: dict[str, Any] = json.loads(zlib.decompress(self._content))
        return values


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigurationPart:
    """What requests may ask of the configuration. Each part is None if the daemon has no file."""

    shown: Redacted | None = None
    reloading: Reloading | None = None
    registering: Registering | None = None


def _without_secrets(value: Any, shown: Callable[[str], str], *, secret: bool = False) -> Any:
    match value:
        case dict():
            place = set(value) <= _PLACES
            return {
                key: _without_secrets(member, shown, secret=not place and names_a_secret(str(key)))
                for key, member in value.items()
            }
        case list():
            return [_without_secrets(member, shown, secret=secret) for member in value]
        case str() if secret:
            return REDACTED
        case str():
            return shown(value)
        case _:
            return value
