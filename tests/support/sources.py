"""The modules of the project as syntax trees. Each is parsed once, however many rules look at it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(file: Path) -> ast.Module:
    """Return the tree of a module. Nobody changes it."""
    return ast.parse(file.read_text(encoding="utf-8"))
