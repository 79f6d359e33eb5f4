"""Each extra of the package is named by the error that a user sees without it."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from lakewarden.demo.registry import demo_of
from lakewarden.planners.databases.engines import engine_of
from lakewarden.planners.formats.iceberg.catalogs import pointers
from lakewarden.planners.formats.iceberg.catalogs.bounded_http import signer
from lakewarden.planners.formats.iceberg.catalogs.settings import Catalog, JdbcCatalog, SigV4
from lakewarden.planners.metastores import Metastores
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage import Storages
from lakewarden.service.config.daemon import TraceSettings
from lakewarden.service.store.opening import open_store
from lakewarden.service.store.settings import DatabaseSettings
from lakewarden.service.wiring.serving import traces_to

_ROOT = Path(__file__).parents[3]
_NOWHERE = "127.0.0.1:9"


def _read(location: str) -> None:
    Storages().of(location).stamp(location)


def _iceberg_catalog(**settings: str) -> None:
    pointers._opened("lake", TypeAdapter[Any](Catalog).validate_python(settings), {})


def _jdbc_catalog() -> None:
    engine_of("lake", JdbcCatalog(type="jdbc", uri=f"jdbc:postgresql://{_NOWHERE}/x", warehouse="/x"))


def _traced() -> None:
    with ExitStack() as life:
        traces_to(TraceSettings(endpoint=f"http://{_NOWHERE}/v1/traces"), SystemClock(), life)


_BUCKETS: Mapping[str, str] = {"s3": "s3://lake/t", "gcs": "gs://lake/t", "azure": "abfss://c@a/t"}
_USES: Sequence[tuple[str, str, Callable[[], object]]] = (
    *((extra, "obstore", lambda at=at: _read(at)) for extra, at in _BUCKETS.items()),
    *((extra, "arro3", lambda at=at: _read(at)) for extra, at in _BUCKETS.items()),
    ("postgres", "psycopg", lambda: open_store(DatabaseSettings(url=f"postgresql://a@{_NOWHERE}/a"), data_dir=_ROOT)),
    ("postgres", "psycopg", _jdbc_catalog),
    ("iceberg", "pyiceberg", lambda: _iceberg_catalog(type="rest", uri=f"http://{_NOWHERE}")),
    ("iceberg", "pyiceberg", lambda: _iceberg_catalog(type="hive", uri=f"thrift://{_NOWHERE}")),
    ("iceberg", "thrift", lambda: _iceberg_catalog(type="hive", uri=f"thrift://{_NOWHERE}")),
    ("sigv4", "botocore", lambda: signer(SigV4(service="glue", region="eu-west-1"), catalog="lake")),
    ("demo", "hudi", lambda: demo_of("hudi")),
    ("demo", "pyiceberg.catalog", lambda: demo_of("iceberg")),
    ("hive", "hive_metastore", lambda: Metastores("lake", f"thrift://{_NOWHERE}", timeout=timedelta(seconds=1))),
    ("hive", "thrift", lambda: Metastores("lake", f"thrift://{_NOWHERE}", timeout=timedelta(seconds=1))),
    ("otel", "opentelemetry.sdk.trace", _traced),
    ("otel", "opentelemetry.exporter.otlp.proto.http.trace_exporter", _traced),
)
"""An extra, a package that it brings, and what a user does that needs it."""

_READ_AGAIN = (
    "lakewarden.demo.formats.hudi.demo",
    "lakewarden.demo.formats.hudi.reader",
    "lakewarden.demo.formats.iceberg.demo",
    "lakewarden.demo.formats.iceberg.reader",
    "lakewarden.planners.databases.postgres",
    "lakewarden.planners.postgres_connection",
    "lakewarden.service.reporting.tracing",
    "lakewarden.service.store.sql.postgres",
)
"""Modules that import the package of an extra when they are imported."""


def test_each_extra_is_among_those_that_are_tried() -> None:
    """A new extra needs an error that names it. tests/unit/cli has that of the server."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {extra for extra, _, _ in _USES} | {"server"} == set(project["optional-dependencies"])


@pytest.mark.parametrize(("extra", "package", "use"), _USES, ids=lambda one: one if isinstance(one, str) else "use")
def test_without_an_extra_the_error_is_the_line_that_installs_it(
    extra: str, package: str, use: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user can paste it. A package that another one brings in part is missing, too: pyiceberg alone has no thrift."""
    for module in _READ_AGAIN:
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(PermanentError, match=rf"pip install '\.\[(server,)?{extra}\]' in a clone"):
        use()
