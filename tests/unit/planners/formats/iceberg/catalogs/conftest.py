"""The fixtures of every kind of catalog: tables by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import TypeAdapter

from lakewarden.planners.formats.iceberg.catalogs.pointers import Pointers
from lakewarden.planners.formats.iceberg.catalogs.settings import Catalog
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import Listing
from lakewarden.planners.storage import Storages

_SETTINGS: TypeAdapter[Any] = TypeAdapter(Catalog)
Where = Callable[..., str]


class Asker:
    """Asks for pointers."""

    def __init__(self) -> None:
        self.pointers = Pointers()
        self.storages = Storages()

    def where(self, settings: Mapping[str, Any], identifier: str = "sales.orders", *, name: str = "lake") -> str:
        """Return the metadata file of a table of a catalog."""
        location = f"catalog://{name}/{identifier}"
        table = Table(
            id=TableId(identifier), format="iceberg", location=location, catalog=_SETTINGS.validate_python(settings)
        )
        return self.pointers.of(table, self.storages.of(location)).metadata_file

    def at(self, folder: str) -> str:
        """Return the metadata file of a table of a Hadoop catalog, by its folder."""
        table = Table(id=TableId("orders"), format="iceberg", location=folder)
        return self.pointers.of(table, self.storages.of(folder)).metadata_file

    def listing(self, settings: Mapping[str, Any], *, name: str = "lake") -> Listing:
        """Return the tables that the catalog lists, and what it cannot list."""
        storage = self.storages.of(f"catalog://{name}/any.table")
        return self.pointers.tables(name, _SETTINGS.validate_python(settings), storage)

    def tables(self, settings: Mapping[str, Any], *, name: str = "lake") -> list[str]:
        """Return the tables that the catalog lists, if it lists all of them."""
        listing = self.listing(settings, name=name)
        assert not listing.unlisted
        return list(listing.tables)


@pytest.fixture
def asker() -> Asker:
    return Asker()
