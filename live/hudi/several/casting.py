"""Who writes: a release of Hudi for each writer, as the table's version allows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from lakewarden.demo.environment import Environment
from lakewarden.demo.formats.hudi.options import TableType
from lakewarden.executors.worker import bundles
from tests.support.hudi_bundles import HUDI_BUNDLES

_RELEASES: Mapping[int, Sequence[str]] = {8: ("1.0.2", "1.2.0", "1.1.1"), 9: ("1.2.0", "1.1.1")}
"""The releases that can write a table of a version, in turn; the first one makes it."""

VERSIONS = tuple(_RELEASES)
WRITER = "live.hudi.several.writer"
"""The module of each writer."""

_SHOPS = "abcd"


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One writer: whose orders it writes, with which release, and whether it packs them into others' small files."""

    shop: str
    release: str
    packs: bool


def cast(writers: int, *, table_version: int, conflicts: bool) -> list[Part]:
    """Return the writers of a table. Where there are to be conflicts, every second one packs."""
    releases = islice(cycle(_RELEASES[table_version]), writers)
    return [
        Part(shop=shop, release=release, packs=conflicts and number % 2 == 1)
        for number, (shop, release) in enumerate(zip(_SHOPS, releases, strict=False))
    ]


def bring_releases(table_version: int) -> None:
    """Bring the bundles that the writers of a table need, before any of them waits for its own."""
    for release in _RELEASES[table_version]:
        bundles.bring(HUDI_BUNDLES[release])


def written_by(
    part: Part,
    *,
    stage: Environment,
    table_version: int,
    every: float,
    day: float = 20,
    kind: TableType = TableType.MOR,
    shared: bool = False,
) -> list[str]:
    """Return the arguments of a writer, but for its record. The options that all set are on the stage already."""
    return [
        *("--shop", part.shop, "--release", part.release, "--every", str(every), "--day", str(day)),
        *("--table-type", kind, "--table-version", str(table_version)),
        *("--path", str(stage.table), "--options", str(stage.options)),
        *(["--shared"] if shared else []),
        *(["--packs"] if part.packs else []),
    ]


def second_opinion(table_version: int) -> str:
    """Return the release whose own reader says what it finds in the end."""
    return _RELEASES[table_version][-1]
