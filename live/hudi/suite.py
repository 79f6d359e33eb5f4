"""The suite on Hudi: one writer of a kind, and others that die in a commit."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from lakewarden.executors.demo.hudi_options import TableType
from lakewarden.executors.worker import bundles
from lakewarden.service.demo.hudi import PIECE
from lakewarden.service.demo.show import Show
from lakewarden.service.demo.stage import Stage
from live.acts import Acts
from live.hudi.acts import HudiActs
from live.hudi.policies import WriterKind
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

    def fetch(self, say: Callable[[str], None]) -> None:
        """Bring Hudi's bundle."""
        bundles.fetch(("hudi",), say=say)

    def acts(self, script: Script, asked: argparse.Namespace, stage: Stage, show: Show) -> Acts:
        """Return one performance."""
        return HudiActs(script, stage, show, kind=asked.table_type, writer=asked.writer)
