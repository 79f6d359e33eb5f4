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
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is not None:
            _refuse_aliases(node)
        document = {} if node is None else loader.construct_document(node)
    except (yaml.YAMLError, RecursionError) as malformed:
        raise PermanentError(f"{path} is not the YAML we read: {_in_one_line(malformed)}") from malformed
    if not isinstance(document, dict):
        raise PermanentError(f"{path} must hold a mapping with keys such as tables, not a {type(document).__name__}")
    return document


def _refuse_aliases(root: yaml.Node) -> None:
    """Raise where one collection stands in two places, or they are nested too deep."""
    seen: set[int] = set()
    open_nodes = [(root, 1)]
    while open_nodes:
        node, depth = open_nodes.pop()
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.CollectionNode):
            continue
        if id(node) in seen:
            raise yaml.MarkedYAMLError(problem=f"line {line}: aliases (*name) are not read; use defaults instead")
        if depth > DEEPEST:
            raise yaml.MarkedYAMLError(problem=f"line {line}: nested more than {DEEPEST} deep")
        seen.add(id(node))
        for child in node.value:
            open_nodes.extend((part, depth + 1) for part in (child if isinstance(child, tuple) else (child,)))


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())
