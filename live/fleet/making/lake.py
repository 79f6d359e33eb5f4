"""The lake of the proof: a ZooKeeper, two catalogs, and the tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from lakewarden.demo.daemon import Child, ZooKeeper
from lakewarden.planners.model.errors import PermanentError
from live.fleet.kinds import Home, Made
from live.fleet.making.hudi_tables import copy_tables, make_nodes
from live.fleet.making.iceberg_tables import jdbc_catalog, make_tables
from live.fleet.making.lock_nodes import lock_nodes
from live.fleet.waiting import wait_until
from tests.support.catalogs.iceberg_rest import iceberg_rest

_COMMITS = 12
_SEEDS_SECONDS = 900


@dataclass(frozen=True, kw_only=True, slots=True)
class Lake:
    """A lake that runs. `zookeeper` is `host:port`, `rest` is the address of the REST catalog."""

    folder: Path
    tables: Sequence[Made]
    zookeeper: str
    rest: str

    def of(self, home: Home) -> list[Made]:
        """Return the tables of a home."""
        return [one for one in self.tables if one.home is home]


@contextmanager
def running_lake(folder: Path, tables: Sequence[Made], say: Callable[[str], None]) -> Iterator[Lake]:
    """Make the tables, and serve their catalogs and their locks as long as the bracket is open."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lake").mkdir()
    zookeeper = ZooKeeper(folder / "zookeeper")
    try:
        wait_until(zookeeper.ready, 60, "ZooKeeper does not answer")
        with iceberg_rest(folder / "lake", files={"warehouse": f"file://{folder}/lake/rest"}) as rest:
            lake = Lake(folder=folder / "lake", tables=tables, zookeeper=zookeeper.address, rest=rest.uri)
            with lock_nodes(zookeeper.port) as nodes:
                make_nodes(lake.of(Home.HUDI), nodes)
            _write_seeds(folder, zookeeper.address, say)
            with lock_nodes(zookeeper.port) as nodes:
                copy_tables(lake.of(Home.HUDI), seeds=folder / "seeds", lake=lake.folder, nodes=nodes)
            say(f"{len(lake.of(Home.HUDI))} Hudi tables are made")
            make_tables(lake.of(Home.REST), rest.catalog, commits=_COMMITS)
            say(f"{len(lake.of(Home.REST))} Iceberg tables are made in a REST catalog")
            make_tables(lake.of(Home.JDBC), jdbc_catalog(lake.folder), commits=_COMMITS)
            say(f"{len(lake.of(Home.JDBC))} Iceberg tables are made in a JDBC catalog")
            yield lake
    finally:
        zookeeper.stop()


def _write_seeds(folder: Path, zookeeper: str, say: Callable[[str], None]) -> None:
    seeds = folder / "seeds"
    arguments = ["--directory", str(seeds), "--zookeeper", zookeeper, "--commits", str(_COMMITS)]
    child = Child("seeds", [sys.executable, "-m", "live.fleet.making.seeds", *arguments], log=folder / "seeds.log")
    try:
        wait_until(lambda: child.exit_code is not None, _SEEDS_SECONDS, "the seeds are not written")
    finally:
        child.end(grace=timedelta(seconds=5))
    if child.exit_code != 0:
        raise PermanentError(f"the seeds are not written, see {child.log}\n{child.last_words()}")
    say("the seeds are written")
