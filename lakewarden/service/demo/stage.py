"""The demo's stage: a directory of its own, and the processes that play in it, from their start to their end."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.demo.daemon import TABLE, Daemon
from lakewarden.service.demo.process import Child
from lakewarden.service.demo.zookeeper import ZooKeeper

_WRITER_GRACE = timedelta(seconds=10)
_READER_GRACE = timedelta(seconds=5)


class Stage:
    """Processes are started one by one; leaving it ends those that still run, the last one first."""

    def __init__(self, directory: Path) -> None:
        self.table = directory / "table"
        self.record = directory / "writer.jsonl"
        self.queries = directory / "queries.jsonl"
        self._directory = directory
        self._options = directory / "writer-options.json"
        self._ends = ExitStack()
        self._playing: list[Child] = []

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def start_zookeeper(self) -> ZooKeeper:
        """Start the lock service of the table."""
        zookeeper = ZooKeeper(self._directory / "zookeeper")
        self._ends.callback(zookeeper.stop)
        self._playing.append(zookeeper.process)
        return zookeeper

    def start_daemon(
        self,
        zookeeper: ZooKeeper,
        *,
        services: Mapping[str, Any],
        name: str = "daemon",
        settings: Mapping[str, Any] = MappingProxyType({}),
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> Daemon:
        """Start a daemon, before there is a table, in a folder called `name`. `services` are the policies that the
        table will have, `settings` is more of its configuration, and `variables` are added to its environment.
        """
        daemon = Daemon(
            self._directory / name,
            table=self.table,
            zookeeper=zookeeper.address,
            services=services,
            settings=settings,
            variables=variables,
        )
        self._ends.callback(daemon.stop)
        self._playing.append(daemon.process)
        return daemon

    def start_writer(
        self,
        *,
        daemon: Daemon,
        arguments: Sequence[str] = (),
        more_options: Mapping[str, str] = MappingProxyType({}),
    ) -> Child:
        """Start the writer, which makes the table, with arguments of its own and `hoodie.*` options over those that
        Lakewarden asks for.
        """
        told = json.dumps({**daemon.writer_options(), **more_options}, indent=2)
        self._options.write_text(told, encoding="utf-8")
        return self._start(
            "writer",
            "lakewarden.executors.demo.hudi_writer",
            *("--path", str(self.table), "--table", TABLE, "--record", str(self.record)),
            *("--options", str(self._options), *arguments),
            grace=_WRITER_GRACE,
        )

    def start_casualty(self, number: int, *, arguments: Sequence[str] = ()) -> Child:
        """Start a writer that will die in its only commit, with the options of the one that was started before."""
        casualty = self._start(
            f"casualty-{number}",
            "lakewarden.executors.demo.hudi_casualty",
            *("--path", str(self.table), "--table", TABLE, "--options", str(self._options), *arguments),
            grace=_WRITER_GRACE,
        )
        self.dismiss(casualty)
        return casualty

    def start_reader(self, *, pause_seconds: float = 0.2) -> Child:
        """Start the reader, which breathes between two queries; there must be a table."""
        return self._start(
            "reader",
            "lakewarden.service.demo.reader",
            *("--path", str(self.table), "--record", str(self.record), "--queries", str(self.queries)),
            *("--pause", str(pause_seconds)),
            grace=_READER_GRACE,
        )

    def stop_reader(self, reader: Child) -> None:
        """End the reader after its query."""
        self.dismiss(reader)
        reader.end(grace=_READER_GRACE)

    def dismiss(self, child: Child) -> None:
        """Expect a process to end by itself from now on."""
        self._playing.remove(child)

    def check(self) -> None:
        """Raise PermanentError if a process has ended that should be running."""
        for child in self._playing:
            if child.exit_code is not None:
                raise PermanentError(
                    f"the {child.name} is gone ({child.exit_code}), see {child.log}\n{child.last_words()}"
                )

    def _start(self, name: str, module: str, *arguments: str, grace: timedelta) -> Child:
        child = Child(name, [sys.executable, "-m", module, *arguments], log=self._directory / f"{name}.log")
        self._ends.callback(child.end, grace=grace)
        self._playing.append(child)
        return child
