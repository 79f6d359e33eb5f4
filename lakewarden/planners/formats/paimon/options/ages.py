"""How old and for how long unknown a file must be before it may be deleted. Settings, notes and programs ask here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from lakewarden.planners.formats.paimon.options.service_options import OrphansOptions
from lakewarden.planners.formats.paimon.options.table_options import PaimonTableOptions
from lakewarden.planners.settings import format_duration

_USUAL = timedelta(days=3)
_A_COMMIT = timedelta(hours=24)


@dataclass(frozen=True, kw_only=True, slots=True)
class OrphanAge:
    """An age and its reason, for people. `option` is the table option that sets it, if one does."""

    age: timedelta
    because: str
    option: str | None = None

    def __str__(self) -> str:
        return f"{format_duration(self.age)} ({self.because})"


def least_age_of_orphans(table: PaimonTableOptions) -> OrphanAge:
    """Return the least age of a file before it may count as an orphan.

    A younger file may belong to a commit that has not ended, or to a checkpoint of Flink: a restored job commits files
    that it wrote before it stopped.
    """
    return max(
        OrphanAge(age=_A_COMMIT, because="a younger file may belong to a commit that is under way"),
        _by_option("longest_outage", table.longest_outage),
        _by_option("flink_restores", table.flink_restores),
        key=lambda one: one.age,
    )


def age_of_orphans(orphans: OrphansOptions, table: PaimonTableOptions) -> OrphanAge:
    """Return the age from which a file may count as an orphan: the age in the options, but at least the least age."""
    least = least_age_of_orphans(table)
    asked = _USUAL if orphans.older_than is None else orphans.older_than
    if asked < least.age:
        return least
    return OrphanAge(age=asked, because="by default" if orphans.older_than is None else "older_than")


def unknown_for(orphans: OrphansOptions, table: PaimonTableOptions) -> timedelta:
    """Return for how long a file must be unknown before it is deleted."""
    return max(orphans.unknown_for, table.longest_outage)


def _by_option(option: str, age: timedelta) -> OrphanAge:
    why = "a job that is restored by then commits files that it wrote before it stopped"
    return OrphanAge(age=age, because=f"options.{option}, for {why}", option=option)
