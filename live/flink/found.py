"""The result of a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The figures, and whether the scenario has shown what it promises."""

    report: Mapping[str, Any]
    proved: bool
