"""The suite on Hudi: one writer of a kind, and others that die in a commit; or several writers at once."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from lakewarden.demo.environment import Environment
from lakewarden.demo.formats.hudi.demo import PIECE
from lakewarden.demo.formats.hudi.options import TableType
from lakewarden.demo.run import DemoRun
from lakewarden.executors.worker import bundles
from live.acts import Acts
from live.hudi.acts import HudiActs
from live.hudi.policies import WriterKind
from live.hudi.several.acts import SeveralActs
from live.hudi.several.casting import VERSIONS
from live.script import Script


class HudiSuite:
    """Fulfils `Suite`."""

    piece = PIECE
    commits = 30

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what can be asked of a Hudi table."""
        parser.add_argument("--table-type", type=TableType, default=TableType.MOR, help="mor (the default) or cow")
        parser.add_argument(
            "--writer",
            type=WriterKind,
            default=WriterKind.UPSERT,
            help="upsert (the default), inline (it schedules, and leaves execution to us) or streaming",
        )
        several = parser.add_argument_group("several writers, of several releases, with a composed record key")
        several.add_argument("--writers", type=int, choices=range(1, 5), default=1, help="how many, up to 4")
        several.add_argument("--conflicts", action="store_true", help="they write into the same partitions and files")
        several.add_argument("--table-version", type=int, choices=VERSIONS, default=9, help="8 or 9 (the default)")
        several.add_argument("--every", type=float, default=2.5, metavar="SECONDS", help="between commits of one")
        several.add_argument("--day", type=float, default=20, metavar="SECONDS", help="until the next partition begins")

    def fetch(self, say: Callable[[str], None]) -> None:
        """Bring Hudi's bundle."""
        bundles.fetch(("hudi",), say=say)

    def acts(self, script: Script, asked: argparse.Namespace, stage: Environment, show: DemoRun) -> Acts:
        """Return one performance."""
        if asked.writers > 1:
            return SeveralActs(
                script,
                stage,
                show,
                kind=asked.table_type,
                writers=asked.writers,
                conflicts=asked.conflicts,
                table_version=asked.table_version,
                every_seconds=asked.every,
                day_seconds=asked.day,
            )
        return HudiActs(script, stage, show, kind=asked.table_type, writer=asked.writer)
