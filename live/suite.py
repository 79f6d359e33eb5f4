"""What a format brings to the suite."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Protocol

from lakewarden.demo.environment import Environment
from lakewarden.demo.format_demo import FormatDemo
from lakewarden.demo.run import DemoRun
from live.acts import Acts
from live.script import Script


class Suite(Protocol):
    """One format's part."""

    @property
    def piece(self) -> FormatDemo:
        """The table, its first writer and its reader."""
        ...

    @property
    def commits(self) -> int:
        """How many commits the writers make at least, unless somebody asks for another number."""
        ...

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what can be asked of this format alone."""
        ...

    def fetch(self, say: Callable[[str], None]) -> None:
        """Bring the jars that the table needs."""
        ...

    def acts(self, script: Script, asked: argparse.Namespace, stage: Environment, show: DemoRun) -> Acts:
        """Return one performance."""
        ...


def script_of(asked: argparse.Namespace) -> Script:
    """Return what was asked of any format."""
    services: Sequence[str] | None = asked.services
    only = None if services is None else frozenset(services)
    return Script(commits=asked.commits, minutes=asked.minutes, only=only)
