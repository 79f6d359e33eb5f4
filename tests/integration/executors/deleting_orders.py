"""A table whose writers delete rows, too."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tests.integration.executors.shared_orders import SharedOrders
from tests.support.hudi.orders import Orders


@dataclasses.dataclass
class Deleting(SharedOrders):
    """Orders that are deleted, too."""

    writers: str = "live"
    returning_keys: str = "checked"

    @classmethod
    def of(cls, orders: Orders) -> Deleting:
        """Return the same table."""
        return cls(**{field.name: getattr(orders, field.name) for field in dataclasses.fields(orders)})

    @property
    def assigned(self) -> Mapping[str, Any]:
        """Add the options. A table without writers names no lock."""
        lock = {} if self.writers == "none" else super().assigned["table_options"]
        options = {**lock, "writers": self.writers, "returning_keys": self.returning_keys}
        return {**super().assigned, "table_options": options}

    def _options(self) -> dict[str, str]:
        return Orders._options(self)

    def delete(self, *keys: str, **conf: str) -> None:
        """Delete these orders, which need not be there, with further options of the writer."""
        self.versions += 1
        rows = [(key, "", self.versions, f"p{int(key[1:]) % 3}") for key in keys]
        dataclasses.replace(self, conf={**self.conf, **conf, "hoodie.datasource.write.operation": "delete"})._save(rows)
        for key in keys:
            self.expected.pop(key, None)
