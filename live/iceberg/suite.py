"""The suite on Iceberg: an appender and a MERGE/DELETE writer beside every service."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from lakewarden.demo.environment import Environment
from lakewarden.demo.run import DemoRun
from lakewarden.executors.worker import bundles
from live.acts import Acts
from live.iceberg.acts import IcebergActs
from live.iceberg.piece import CatalogPiece, driver
from live.script import Script


class IcebergSuite:
    """Fulfils `Suite`."""

    piece = CatalogPiece()
    commits = 150

    def add_arguments(self, _parser: argparse.ArgumentParser) -> None:
        """Add nothing: there is one table and one pair of writers."""

    def fetch(self, say: Callable[[str], None]) -> None:
        """Bring Iceberg's bundle and the driver of the catalog's database."""
        bundles.fetch(("iceberg",), say=say)
        driver(say)

    def acts(self, script: Script, _asked: argparse.Namespace, stage: Environment, show: DemoRun) -> Acts:
        """Return one performance."""
        return IcebergActs(script, stage, show)
