"""How old snapshots and files must be before they may be deleted. Settings, decisions and programs all ask
here. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from lakewarden.planners.formats.iceberg.options.service_options import OrphansOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.settings import format_duration

_USUAL = timedelta(days=3)
_A_COMMIT = timedelta(hours=24)


@dataclass(frozen=True, kw_only=True, slots=True)
class Age:
    """An age and its reason, for people. `option` is the table option that sets it, if one does."""

    age: timedelta
    because: str
    option: str | None = None

    @property
    def or_lower(self) -> str:
        """Return, for messages, that the option may also be lowered."""
        return "" if self.option is None else f", or lower {self.option} if no writer comes back after so long"

    def __str__(self) -> str:
        return f"{format_duration(self.age)} ({self.because})"


def least_age_of_snapshots(options: IcebergTableOptions) -> Age:
    """Return the least age of a snapshot before it may expire."""
    why = "a writer that comes back by then looks for its last snapshot"
    return _by_option("longest_outage", options.longest_outage, why)


def least_age_of_orphans(options: IcebergTableOptions) -> Age:
    """Return the least age of a file before it may count as an orphan.

    A younger file may belong to a commit that has not ended, to a worker of Kafka Connect that has stopped, or to a
    checkpoint of Flink. A writer that comes back commits files that it wrote before.
    """
    stopped = "a writer that comes back by then commits files that it wrote before it stopped"
    restored = "a Flink job that is restored by then commits files that only its checkpoint knows"
    return max(
        Age(age=_A_COMMIT, because="a younger file may belong to a commit that is under way"),
        _by_option("longest_outage", options.longest_outage, stopped),
        _by_option("flink_restores", options.flink_restores, restored),
        key=lambda one: one.age,
    )


def age_of_orphans(orphans: OrphansOptions, options: IcebergTableOptions) -> Age:
    """Return the age from which a file may count as an orphan: the age in the options, but at least the least age."""
    least = least_age_of_orphans(options)
    asked = _USUAL if orphans.older_than is None else orphans.older_than
    if asked < least.age:
        return least
    return Age(age=asked, because="by default" if orphans.older_than is None else "older_than")


def _by_option(option: str, age: timedelta, why: str) -> Age:
    return Age(age=age, because=f"options.{option}, for {why}", option=option)
