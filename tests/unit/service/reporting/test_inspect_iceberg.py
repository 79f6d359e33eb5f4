"""`lakewarden inspect` knows an Iceberg table by its folder, and by its name in a catalog of a configuration."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from lakewarden.service.reporting.inspect import inspect_path


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Return a folder with a catalog in which `sales.orders` has six snapshots, and a configuration that names it."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("sales")
    rows = pa.table({"id": [1, 2, 3]})
    table = catalog.create_table("sales.orders", rows.schema)
    for _ in range(6):
        table.append(rows)
    settings = f"{{format: iceberg, type: jdbc, uri: 'jdbc:sqlite:{tmp_path}/catalog.db', warehouse: {tmp_path}}}"
    (tmp_path / "lakewarden.yaml").write_text(f"catalogs: {{lake: {settings}}}")
    return tmp_path


def _inspected(path: str, config: Path | None = None) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = inspect_path(path, as_json=True, out=out, err=err, config=config)
    return code, out.getvalue(), err.getvalue()


def test_a_table_of_a_catalog_is_inspected_by_its_name(lake: Path) -> None:
    """Its snapshots are its instants."""
    code, said, _ = _inspected("catalog://lake/sales.orders", lake / "lakewarden.yaml")
    report = json.loads(said)

    assert code == 0
    assert (report["format"], report["small_files"]) == ("iceberg", 6)
    assert [instant["action"] for instant in report["instants"]] == ["append"] * 6


def test_a_name_without_its_configuration_leads_nowhere(lake: Path) -> None:
    """One line says what to do."""
    code, said, error = _inspected("catalog://lake/sales.orders")

    assert (code, said) == (2, "")
    assert "there is no catalog 'lake': name a configuration that has it, with --config" in error


def test_the_folder_of_a_catalogs_table_is_no_table(lake: Path) -> None:
    """Only the catalog knows which of the files is the newest: to guess would be to show an old table."""
    code, _, error = _inspected(f"{lake}/warehouse/sales/orders")

    assert code == 2
    assert "a catalog knows its newest version; register it as catalog://<name>/<namespace>.<table>" in error
