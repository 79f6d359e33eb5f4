"""Real databases for JDBC catalogs: SQLite, PostgreSQL, and MariaDB where the machine has it."""

from __future__ import annotations

import getpass
import importlib.util
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import sqlalchemy as sa

from lakewarden.demo.daemon import free_port
from lakewarden.executors.on_spark import Bundle
from lakewarden.executors.worker.bundles import bring
from tests.support.catalogs.sqlite_driver import sqlite_driver
from tests.support.store.postgres import running_postgres
from tests.support.store.relay import relay_to

_POSTGRESQL = Bundle(
    group="org.postgresql",
    artifact="postgresql",
    version="42.7.4",
    sha256="188976721ead8e8627eb6d8389d500dccc0c9bebd885268a3047180274a6031e",
    size=1_086_687,
)
_MYSQL = Bundle(
    group="com.mysql",
    artifact="mysql-connector-j",
    version="8.0.33",
    sha256="e2a3b2fc726a1ac64e998585db86b30fa8bf3f706195b78bb77c5f99bf877bd9",
    size=2_481_560,
)


@dataclass(frozen=True, kw_only=True)
class CatalogDatabase:
    """An empty database: its address for JDBC, its user, and an engine of the tests' own."""

    uri: str
    user: str | None
    engine: sa.Engine


def drivers() -> str:
    """Return the class path with the drivers of all databases, fetched where they are missing."""
    return os.pathsep.join(map(str, (sqlite_driver(), bring(_POSTGRESQL), bring(_MYSQL))))


@contextmanager
def catalog_database(kind: str, folder: Path) -> Iterator[CatalogDatabase]:
    """Run a database of this kind for as long as the bracket is open. Skips the test if the machine has none."""
    makers: dict[str, Callable[[Path, ExitStack], CatalogDatabase]] = {
        "sqlite": _sqlite,
        "postgresql": _postgresql,
        "mysql": _mariadb,
    }
    with ExitStack() as stack:
        made = makers[kind](folder, stack)
        stack.callback(made.engine.dispose)
        yield made


def _sqlite(folder: Path, _: ExitStack) -> CatalogDatabase:
    engine = sa.create_engine(f"sqlite:///{folder}/catalog.db", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text("PRAGMA journal_mode=WAL"))  # else open queries block commits
    return CatalogDatabase(uri=f"jdbc:sqlite:{folder}/catalog.db", user=None, engine=engine)


def _postgresql(_: Path, stack: ExitStack) -> CatalogDatabase:
    url = stack.enter_context(running_postgres()).make_database()
    [socket] = Path(parse_qs(urlsplit(url).query)["host"][0]).glob(".s.PGSQL.*[0-9]")
    port = stack.enter_context(relay_to(socket)).port
    at = f"//127.0.0.1:{port}{urlsplit(url).path}"
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT")
    return CatalogDatabase(uri=f"jdbc:postgresql:{at}?sslmode=disable", user="postgres", engine=engine)


def _mariadb(folder: Path, stack: ExitStack) -> CatalogDatabase:
    path = f"{os.environ['PATH']}:/usr/sbin"
    install, server = (shutil.which(one, path=path) for one in ("mariadb-install-db", "mariadbd"))
    if install is None or server is None or importlib.util.find_spec("pymysql") is None:
        pytest.skip("needs MariaDB and pymysql: apt-get install mariadb-server, pip install pymysql")
    data, port, user = folder / "mariadb", free_port(), f"--user={getpass.getuser()}"
    made = [install, f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db", user]
    subprocess.run(made, check=True, capture_output=True)
    where = [f"--datadir={data}", f"--socket={data}/s", f"--port={port}", "--bind-address=127.0.0.1"]
    process = subprocess.Popen([server, "--no-defaults", *where, user], stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.kill)
    url = f"mysql+pymysql://root@127.0.0.1:{port}"
    until = time.monotonic() + 60
    while not _made_in(url):
        assert time.monotonic() < until, "MariaDB does not start"
        time.sleep(0.1)
    engine = sa.create_engine(f"{url}/catalog", isolation_level="AUTOCOMMIT")
    return CatalogDatabase(uri=f"jdbc:mysql://127.0.0.1:{port}/catalog", user="root", engine=engine)


def _made_in(url: str) -> bool:
    """Make the database, and return whether the server answers."""
    try:
        with sa.create_engine(url, isolation_level="AUTOCOMMIT").connect() as connection:
            connection.execute(sa.text("CREATE DATABASE catalog"))
    except sa.exc.OperationalError:
        return False
    return True
