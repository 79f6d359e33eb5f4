"""A JDBC catalog: rows of a database, read through SQLAlchemy.

Source: `org.apache.iceberg.jdbc.JdbcUtil` of Iceberg 1.11. The table `iceberg_tables` is keyed by catalog_name,
table_namespace (its levels joined by dots) and table_name; its second schema also holds views, told by iceberg_type.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import sqlalchemy as sa

from lakewarden.planners.formats.iceberg.catalogs.dotted import listing_of
from lakewarden.planners.formats.iceberg.catalogs.gate import BusyError, RefusedError, UnreachableError
from lakewarden.planners.formats.iceberg.catalogs.settings import JdbcCatalog
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.ports import Listing

_TABLE = "iceberg_tables"
_ROW = sa.text(
    f"SELECT * FROM {_TABLE} WHERE catalog_name = :catalog AND table_namespace = :namespace AND table_name = :table"  # noqa: S608 - a constant
)
_ROWS = sa.text(f"SELECT * FROM {_TABLE} WHERE catalog_name = :catalog")  # noqa: S608 - a constant
_NAMES = sa.text(f"SELECT DISTINCT catalog_name FROM {_TABLE}")  # noqa: S608 - a constant

_REFUSALS = ("28", "3D", "3F", "42501")
"""What PostgreSQL calls a wrong user, password, database, schema or a missing right; see its manual, appendix A."""

_REFUSED_AT_THE_DOOR = ("authentication failed", "no password supplied", "no pg_hba.conf entry", "does not exist")
"""The same before there is a connection, which has no such code."""

_UNDEFINED_TABLE = "42P01"
_NO_SUCH_TABLE = ("no such table", "(1146,")
"""... and what SQLite and MySQL say."""

_DAMAGED = ("file is not a database", "malformed")


class JdbcRows:
    """The rows of one catalog. For any thread."""

    was_let_in = False

    def __init__(self, name: str, settings: JdbcCatalog) -> None:
        """Connect to nothing yet. Raises PermanentError where the driver is not installed or the secret is missing."""
        self._name = name
        self._key = settings.catalog_name or name
        self._engine = _engine(name, settings)

    def metadata_file(self, identifier: str) -> str:
        """Return the row's metadata location: one query."""
        namespace, _, table = identifier.rpartition(".")
        rows = self._rows(_ROW, catalog=self._key, namespace=namespace, table=table)
        if not rows:
            raise PermanentError(self._missing(identifier))
        if _is_view(rows[0]):
            raise PermanentError(
                f"{identifier} of the catalog {self._name} is a view: remove it from the configuration"
            )
        return str(rows[0]["metadata_location"])

    def hands_out(self, identifier: str) -> str | None:
        """Return None: it knows of no means to reach files."""
        return None

    def tables(self) -> Listing:
        """Return the identifiers of the rows that are tables: one query."""
        rows = self._rows(_ROWS, catalog=self._key)
        return listing_of(
            (*str(row["table_namespace"]).split("."), str(row["table_name"])) for row in rows if not _is_view(row)
        )

    def _missing(self, identifier: str) -> str:
        others = sorted(str(row["catalog_name"]) for row in self._rows(_NAMES) if row["catalog_name"] != self._key)
        said = f"the catalog {self._name} has no table {identifier} under the name {self._key!r}"
        return f"{said}; its database also knows {', '.join(others)}: see catalog_name" if others else said

    def _rows(self, statement: sa.TextClause, **values: str) -> Sequence[Mapping[str, Any]]:
        try:
            with self._engine.connect() as connection:
                return [dict(row) for row in connection.execute(statement, values).mappings()]
        except sa.exc.TimeoutError as crowded:
            raise BusyError(f"the catalog {self._name} does not answer: its connections are in use") from crowded
        except sa.exc.DBAPIError as trouble:
            raise self._translated(trouble) from trouble

    def _translated(self, trouble: sa.exc.DBAPIError) -> LakewardenError:
        said = " ".join(str(trouble.orig).split())
        code = str(getattr(trouble.orig, "sqlstate", None) or "")
        if code == _UNDEFINED_TABLE or any(words in said for words in _NO_SUCH_TABLE):
            return PermanentError(f"the database of the catalog {self._name} has no table {_TABLE}: correct its uri")
        if code.startswith(_REFUSALS) or (not code and any(words in said for words in _REFUSED_AT_THE_DOOR)):
            where = f"catalogs.{self._name}"
            return RefusedError(f"the catalog {self._name} refuses us: see {where}.user and {where}.password ({said})")
        if any(words in said for words in _DAMAGED):
            return PermanentError(
                f"the database of the catalog {self._name} is damaged: restore it from a backup ({said})"
            )
        return UnreachableError(f"the catalog {self._name} does not answer: {said}")


def _is_view(row: Mapping[str, Any]) -> bool:
    """Whether the row is no table. Before its second schema, and in rows from then, there is nothing but tables."""
    return row.get("iceberg_type") not in (None, "TABLE")


def _engine(name: str, settings: JdbcCatalog) -> sa.Engine:
    kind, _, address = settings.uri.removeprefix("jdbc:").partition(":")
    match kind:
        case "sqlite":
            return _sqlite(name, address, settings)
        case "postgresql":
            return _postgresql(name, address, settings)
        case _:
            return _mysql(name, address, settings)


def _sqlite(name: str, address: str, settings: JdbcCatalog) -> sa.Engine:
    """Return an engine that cannot write, and that opens the file each time: it may have been replaced by another."""
    path = address.removeprefix("file:").partition("?")[0]
    if not path.startswith("/"):
        raise PermanentError(f"catalogs.{name}.uri: an SQLite database needs an absolute path, not {path!r}")
    url = sa.URL.create("sqlite", database=f"file:{path}", query={"mode": "ro", "uri": "true"})
    waits = {"timeout": settings.timeout.total_seconds()}
    return sa.create_engine(url, poolclass=sa.NullPool, connect_args=waits)


def _postgresql(name: str, address: str, settings: JdbcCatalog) -> sa.Engine:
    _require(name, "psycopg", "pip install 'lakewarden[postgres]'")
    from lakewarden.planners.formats.iceberg.catalogs.jdbc_postgres import engine  # noqa: PLC0415 - the driver is an extra

    return engine(_url(name, "postgresql+psycopg", address, settings), _query(address), settings)


def _mysql(name: str, address: str, settings: JdbcCatalog) -> sa.Engine:
    _require(name, "pymysql", "pip install pymysql")
    seconds = settings.timeout.total_seconds()
    waits = {"connect_timeout": seconds, "read_timeout": seconds, "write_timeout": seconds}
    url = _url(name, "mysql+pymysql", address, settings)
    return sa.create_engine(url, pool_pre_ping=True, pool_size=settings.requests_at_once, connect_args=waits)


def _require(name: str, driver: str, remedy: str) -> None:
    if importlib.util.find_spec(driver) is None:
        raise PermanentError(f"the catalog {name} needs the driver {driver}: {remedy}")


def _url(name: str, driver: str, address: str, settings: JdbcCatalog) -> sa.URL:
    """Return SQLAlchemy's spelling of an address such as `//host:5432/catalog`, or `catalog` on this machine."""
    address = address.partition("?")[0]
    try:
        url = sa.make_url(f"{driver}:{address if address.startswith('//') else f'//localhost/{address}'}")
    except (sa.exc.ArgumentError, ValueError) as wrong:
        raise PermanentError(f"catalogs.{name}.uri: {address!r} does not have the form //host:port/database") from wrong
    password = None if settings.password is None else settings.password.value()
    return url.set(username=settings.user, password=password)


def _query(address: str) -> Mapping[str, str]:
    return dict(parse_qsl(address.partition("?")[2]))
