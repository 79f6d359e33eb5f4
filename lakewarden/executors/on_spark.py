"""What a format needs of Spark: its jars, and its settings. Free of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """One jar in a Maven repository. `size` is in bytes."""

    group: str
    artifact: str
    version: str
    sha256: str
    size: int

    @property
    def file_name(self) -> str:
        """Return the jar's name in the cache."""
        return f"{self.artifact}-{self.version}.jar"


@dataclass(frozen=True, kw_only=True, slots=True)
class OnSpark:
    """A format's `bundle`, and the configuration `conf` that a session with the format must have. `clients` are the
    further jars that some tables need, by a word for the need.
    """

    bundle: Bundle | None = None
    clients: Mapping[str, Bundle] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict)
