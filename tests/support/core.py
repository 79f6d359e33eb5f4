"""Which cases of a test on real services belong to the core that `./dev test` runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_in_the_core(cases: Iterable[Any]) -> list[Any]:
    """Return the cases for `parametrize`. The first has the mark `core`."""
    first, *others = cases
    return [pytest.param(first, marks=pytest.mark.core), *others]
