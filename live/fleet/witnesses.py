"""What the tables hold, by readers that share no code with Lakewarden: bytes, and rows by hudi-rs and pyiceberg."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from hudi import HudiTable
from pyiceberg.catalog import Catalog

from live.fleet.making.iceberg_tables import NAMESPACE


def bytes_of(folder: Path) -> Mapping[str, str]:
    """Return the SHA-256 of each file below a folder, by its path."""
    found = {}
    for at, _, names in os.walk(folder):
        for name in names:
            path = Path(at) / name
            found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def hudi_rows(folder: Path) -> Mapping[str, str]:
    """Return the note of each order of a Hudi table. Raises ValueError if an order is there twice."""
    rows: dict[str, str] = {}
    for batch in HudiTable(str(folder)).read():
        keys, notes = (batch.column(name).to_pylist() for name in ("order_id", "note"))
        rows |= dict(zip(keys, notes, strict=True))
        if len(set(keys)) < len(keys):
            raise ValueError(f"an order of {folder} is there twice")
    return rows


def iceberg_rows(catalog: Catalog, name: str) -> Mapping[str, str]:
    """Return the note of each row of an Iceberg table. Raises ValueError if a row is there twice."""
    scanned = catalog.load_table((NAMESPACE, name)).scan().to_arrow()
    keys = [str(key) for key in scanned["id"].to_pylist()]
    if len(set(keys)) < len(keys):
        raise ValueError(f"a row of {name} is there twice")
    return dict(zip(keys, scanned["note"].to_pylist(), strict=True))
