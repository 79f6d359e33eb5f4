"""The demo's environment: a directory of its own, and the demo's processes from their start to their end."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lakewarden.demo.daemon import SERVE, Child, DaemonProcess, ZooKeeper, merged
from lakewarden.demo.format_demo import FormatDemo
from lakewarden.planners.model.errors import PermanentError

_WRITER_GRACE = timedelta(seconds=10)
_READER_GRACE = timedelta(seconds=5)


class Environment:
    """Starts processes one by one. At its end it ends those that still run, the last one first."""

    def __init__(self, directory: Path, format_demo: FormatDemo) -> None:
        self.format_demo = format_demo
        self.directory = directory
        self.table = format_demo.folder(directory)
        self.record = directory / "writer.jsonl"
        self.records = [self.record]
        self.queries = directory / "queries.jsonl"
        self.options = directory / "writer-options.json"
        self._ends = ExitStack()
        self._running: list[Child] = []

    def __enter__(self) -> Environment:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def start_zookeeper(self) -> ZooKeeper:
        """Start the lock service of the table."""
        zookeeper = ZooKeeper(self.directory / "zookeeper")
        self._ends.callback(zookeeper.stop)
        self._running.append(zookeeper.process)
        return zookeeper

    def start_daemon(
        self,
        *,
        table: Mapping[str, Any],
        services: Mapping[str, Any],
        name: str = "daemon",
        settings: Mapping[str, Any] = MappingProxyType({}),
        variables: Mapping[str, str] = MappingProxyType({}),
        serve: Sequence[str] = SERVE,
    ) -> DaemonProcess:
        """Start a daemon, before there is a table, in a folder called `name`. `table` is the table's entry in the
        configuration (`FormatDemo.entry`), `services` are its policies, `settings` are added to the configuration,
        and `variables` to its environment. `serve` starts it.
        """
        daemon = DaemonProcess(
            self.directory / name,
            table=table,
            services=services,
            settings=merged(self.format_demo.settings(self.directory), settings),
            variables=variables,
            serve=serve,
        )
        self._ends.callback(daemon.stop)
        self._running.append(daemon.process)
        return daemon

    def start_writer(
        self,
        *,
        daemon: DaemonProcess,
        arguments: Sequence[str] = (),
        more_options: Mapping[str, str] = MappingProxyType({}),
    ) -> Child:
        """Start the writer, which creates the table, with arguments of its own, and with options over those that
        Lakewarden asks for.
        """
        text = json.dumps({**daemon.writer_options(), **more_options}, indent=2)
        self.options.write_text(text, encoding="utf-8")
        told_of_table = self.format_demo.writer_arguments(self.directory)
        told_of_record = ("--record", str(self.record), "--options", str(self.options))
        return self.start("writer", self.format_demo.writer, *told_of_table, *told_of_record, *arguments)

    def start_another_writer(self, name: str, module: str, *arguments: str) -> Child:
        """Start a writer with other keys than the first one, and a record of its own. The reader must start
        after it.
        """
        record = self.directory / f"{name}.jsonl"
        self.records.append(record)
        return self.start(name, module, "--record", str(record), *arguments)

    def start_reader(self, *, pause_seconds: float = 0.2) -> Child:
        """Start the reader, which pauses between two queries. There must be a table."""
        told_of_records = [argument for record in self.records for argument in ("--record", str(record))]
        return self.start(
            "reader",
            self.format_demo.reader,
            *self.format_demo.reader_arguments(self.directory),
            *(*told_of_records, "--queries", str(self.queries), "--pause", str(pause_seconds)),
            grace=_READER_GRACE,
        )

    def stop_reader(self, reader: Child) -> None:
        """End the reader after its query."""
        self.expect_end(reader)
        reader.end(grace=_READER_GRACE)

    def expect_end(self, child: Child) -> None:
        """Expect a process to end by itself from now on."""
        self._running.remove(child)

    def check(self) -> None:
        """Raise PermanentError if a process has ended that should be running."""
        for child in self._running:
            if child.exit_code is not None:
                raise PermanentError(
                    f"the {child.name} is gone ({child.exit_code}), see {child.log}\n{child.last_words()}"
                )

    def start(self, name: str, module: str, *arguments: str, grace: timedelta = _WRITER_GRACE) -> Child:
        """Start a module in a process of its own. The process is expected to run until the environment ends it."""
        child = Child(name, [sys.executable, "-m", module, *arguments], log=self.directory / f"{name}.log")
        self._ends.callback(child.end, grace=grace)
        self._running.append(child)
        return child
