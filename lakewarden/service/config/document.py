"""A YAML file becomes plain values, refusing what YAML would pass over in silence."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from lakewarden.planners.model.errors import PermanentError

LARGEST_BYTES = 16 * 2**20
DEEPEST = 32


class _Loader(yaml.CSafeLoader):
    """Safe YAML in which a key stands once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - pyyaml's own signature
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise yaml.MarkedYAMLError(problem=f"line {line}: the key {key!r} stands here a second time")
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def read_document(path: Path) -> dict[str, Any]:
    """Return the mapping that the file holds; an empty file is an empty one.

    Raises PermanentError, naming the file and the place, if it cannot be read, is too large, is no YAML, uses a key
    twice, uses aliases (a few lines of them can grow without bound; `defaults` says a thing once), or is no mapping.
    """
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise PermanentError(f"{path} is larger than {LARGEST_BYTES} bytes")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PermanentError(f"there is no configuration file {path}") from None
    except (OSError, UnicodeDecodeError) as trouble:
        raise PermanentError(f"{path} cannot be read: {trouble}") from trouble
    try:
        _refuse_growth(text)
        document = yaml.load(text, _Loader)  # noqa: S506 - ours is a safe loader
    except (yaml.YAMLError, ValueError, TypeError) as malformed:  # the latter two for dates and keys that are none
        raise PermanentError(f"{path} is not the YAML we read: {_in_one_line(malformed)}") from malformed
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise PermanentError(f"{path} must hold a mapping with keys such as tables, not a {type(document).__name__}")
    return document


def _refuse_growth(text: str) -> None:
    """Raise at the first alias and where collections are nested too deep: before anything is built from them."""
    depth = 0
    for event in yaml.parse(text, yaml.CSafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 0
        match event:
            case yaml.AliasEvent():
                raise yaml.MarkedYAMLError(problem=f"line {line}: aliases (*name) are not read; use defaults instead")
            case yaml.CollectionStartEvent():
                depth += 1
            case yaml.CollectionEndEvent():
                depth -= 1
        if depth > DEEPEST:
            raise yaml.MarkedYAMLError(problem=f"line {line}: nested more than {DEEPEST} deep")


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())
