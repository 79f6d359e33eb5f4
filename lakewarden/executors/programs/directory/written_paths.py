"""The paths in the journals of acts. A journal lies where others may write: it names nothing outside of its table."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from lakewarden.planners.formats.directory.listing.names import OURS

_UP = frozenset({"", ".", ".."})


def _is_below(path: str) -> str:
    levels = path.split("/")
    if not _UP.isdisjoint(levels) or levels[0] == OURS or "\0" in path:
        raise ValueError("it is no path of a partition")
    return path


def _is_one_level(name: str) -> str:
    if name in _UP or "/" in name or "\0" in name:
        raise ValueError("it is no name of a file")
    return name


PartitionPath = Annotated[str, AfterValidator(_is_below)]
"""The path of a partition below its table, and not in the folder of the acts."""

FileName = Annotated[str, AfterValidator(_is_one_level)]
"""The name of a file. It leads to no other folder: a store knows no `..`, and a disk and some gateways do."""
