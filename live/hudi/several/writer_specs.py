"""The writers: a release of Hudi for each of them, as the table's version allows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from lakewarden.demo.environment import Environment
from lakewarden.demo.formats.hudi.options import TableType
from lakewarden.executors.worker import bundles
from tests.support.hudi.hudi_bundles import HUDI_BUNDLES

_RELEASES: Mapping[int, Sequence[str]] = {8: ("1.0.2", "1.2.0", "1.1.1"), 9: ("1.2.0", "1.1.1")}
"""The releases that can write a table of a version, in turn. The first one creates the table."""

VERSIONS = tuple(_RELEASES)
WRITER = "live.hudi.several.writer"
"""The module of each writer."""

_SHOPS = "abcd"


@dataclass(frozen=True, kw_only=True, slots=True)
class WriterSpec:
    """One writer: the shop of its orders, its release, and whether it packs rows into the small files of other
    writers.
    """

    shop: str
    release: str
    packs: bool


def writer_specs(writers: int, *, table_version: int, conflicts: bool) -> list[WriterSpec]:
    """Return the writers of a table. If there are to be conflicts, every second one packs."""
    releases = islice(cycle(_RELEASES[table_version]), writers)
    return [
        WriterSpec(shop=shop, release=release, packs=conflicts and number % 2 == 1)
        for number, (shop, release) in enumerate(zip(_SHOPS, releases, strict=False))
    ]


def bring_releases(table_version: int) -> None:
    """Download the bundles that the writers of a table need, before a writer has to wait for its own."""
    for release in _RELEASES[table_version]:
        bundles.bring(HUDI_BUNDLES[release])


def written_by(
    writer_spec: WriterSpec,
    *,
    environment: Environment,
    table_version: int,
    every: float,
    day: float = 20,
    kind: TableType = TableType.MOR,
    shared: bool = False,
) -> list[str]:
    """Return the arguments of a writer, without its record. The options that all writers set are written already."""
    return [
        *("--shop", writer_spec.shop, "--release", writer_spec.release, "--every", str(every), "--day", str(day)),
        *("--table-type", kind, "--table-version", str(table_version)),
        *("--path", str(environment.table), "--options", str(environment.options)),
        *(["--shared"] if shared else []),
        *(["--packs"] if writer_spec.packs else []),
    ]


def second_opinion(table_version: int) -> str:
    """Return the release of the second reader, which reads the table at the end."""
    return _RELEASES[table_version][-1]
