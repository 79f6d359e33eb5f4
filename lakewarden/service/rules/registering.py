"""Which tables may be registered beside those that are there. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.table import Table
from lakewarden.planners.storage.locations import by_place, folders_above


class TakenPlaces:
    """The ids and the places that are taken. No table lies inside of another one: services of the outer one could
    delete its files.
    """

    def __init__(self, tables: Iterable[Table] = ()) -> None:
        self._ids: dict[str, str] = {}
        self._taken: dict[str, str] = {}
        self._around: dict[str, str] = {}
        for table in tables:
            self.take(table)

    def take(self, table: Table) -> None:
        """Take the id and the place of a table."""
        here = by_place(table.location)
        self._ids.setdefault(table.id, here)
        self._taken.setdefault(here, table.id)
        for folder in folders_above(here):
            self._around.setdefault(folder, table.id)

    def contradiction(self, table: Table) -> str | None:
        """Return why a table cannot be registered beside the others, or None.

        A table at the same place with the same id is no other table.
        """
        here = by_place(table.location)
        if self._taken.get(here, table.id) != table.id:
            return f"the table at {table.location} is registered already, as {self._taken[here]}"
        if self._ids.get(table.id, here) != here:
            return f"the table at {self._ids[table.id]} has the id {table.id} already"
        outer = next((self._taken[folder] for folder in folders_above(here) if folder in self._taken), None)
        if outer is not None:
            return f"it lies inside of {outer}: the services of that table could delete its files"
        if here in self._around:
            return f"it lies around {self._around[here]}: its services could delete files of that table"
        return None


def registered_twice(others: Sequence[str]) -> Blocked:
    """Return the block of a table if its folder is registered under other ids, too."""
    return Blocked(
        code="registered_twice",
        reason=f"its folder is also registered as {', '.join(others)}: one folder is one table, and each entry would "
        "take the plans and the files of the other for its own",
        remedy="remove one of the two entries",
    )


def beside(tables: Sequence[Table], *, others: Sequence[Table]) -> tuple[Sequence[Table], dict[str, str]]:
    """Return the tables that can be served beside others, and why the rest cannot. The others count more."""
    places, ids = TakenPlaces(others), {table.id for table in others}
    fit: list[Table] = []
    left_out: dict[str, str] = {}
    for table in tables:
        if table.id in ids:
            left_out[table.id] = "the configuration file has a table with this id, which counts more"
        elif (reason := places.contradiction(table)) is not None:
            left_out[table.id] = reason
        else:
            fit.append(table)
            places.take(table)
    return fit, left_out
