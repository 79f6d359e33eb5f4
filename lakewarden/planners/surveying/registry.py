"""The surveyors, by their format. Each is `SURVEYOR` in the module `surveying` of its format."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from lakewarden.planners import formats
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.surveying.contents import Sign, Surveyor


@cache
def surveyors() -> Mapping[str, Surveyor]:
    """Return the surveyor of each format. They are imported now, because a daemon needs none."""
    return {name: import_module(f"{formats.__name__}.{name}.surveying").SURVEYOR for name in FORMATS}


def signs() -> Mapping[str, Sign]:
    """Return how the tables of each format are recognised, as far as anything tells them from other folders."""
    return {name: one.sign for name, one in surveyors().items() if one.sign is not None}
