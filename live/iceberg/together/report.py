"""The report on every kind of writer: the suite's, with a line for each of the other writers and for each incremental
reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Console

from live.report import LiveReport, LiveWriterTally


@dataclass(frozen=True, kw_only=True, slots=True)
class TableTally:
    """The rows of one table or branch. `twice` are rows with a key that another row also has."""

    expected: int
    wrong: int
    twice: int = 0
    unreadable: str = ""

    @property
    def complaint(self) -> str:
        """What is wrong with the rows. Empty if the rows are exactly the expected ones."""
        if self.unreadable or not (self.wrong or self.twice):
            return self.unreadable
        return f"{self.wrong} of {self.expected} rows are wrong, {self.twice} are there twice"


@dataclass(frozen=True, kw_only=True, slots=True)
class IncrementalTally:
    """What the incremental reader read. `missed` are committed rows that it never got, `twice` those that it got
    again.
    """

    readings: int
    rows: int
    failures: tuple[str, ...] = ()
    missed: int = 0
    twice: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class TogetherReport(LiveReport):
    """`others` are the writers of the other tables, `tables` their tables and branches."""

    others: Mapping[str, LiveWriterTally]
    tables: Mapping[str, TableTally]
    incremental: IncrementalTally
    streams: Mapping[str, IncrementalTally]

    @property
    def commits(self) -> int:
        """How many commits all writers have made."""
        return self.writer.commits + sum(tally.commits for tally in self.others.values())

    def shortcomings(self) -> list[str]:
        """Return what was promised and not shown. Writers that lose to each other are no shortcoming."""
        found = LiveReport.shortcomings(self)
        for name, tally in self.others.items():
            if tally.caused_by_us:
                found.append(f"{tally.caused_by_us} commits of the writer of {name} failed because of us")
            if not tally.commits:
                found.append(f"the writer of {name} has committed nothing")
        found += [f"{name}: {rows.complaint}" for name, rows in self.tables.items() if rows.complaint]
        for name, reader in self._readers().items():
            if reader.failures:
                found.append(f"{len(reader.failures)} readings of the {name} failed: {reader.failures[0]}")
            if reader.missed or reader.twice:
                found.append(f"the {name} missed {reader.missed} rows and got {reader.twice} again")
            if not reader.rows:
                found.append(f"the {name} has read no row")
        return found

    def _readers(self) -> Mapping[str, IncrementalTally]:
        return {"incremental reader": self.incremental, **{f"stream {name}": one for name, one in self.streams.items()}}

    def tell_more(self, console: Console) -> None:
        """Print the other writers, their tables and the incremental readers."""
        console.print(f"together  {self.commits} commits of all writers")
        for name, tally in self.others.items():
            console.print(
                f"{name:<9} {tally.commits} commits, {tally.failures} failed, {tally.caused_by_us} of them caused by us"
            )
            for failure in tally.failed:
                console.print(f"  failed {failure.at}: {failure.message}", markup=False, soft_wrap=True)
        for name, rows in self.tables.items():
            console.print(f"  {name}: {rows.expected} rows expected, {rows.wrong} wrong, {rows.twice} twice")
        for name, reader in self._readers().items():
            console.print(
                f"{name}: {reader.readings} readings, {reader.rows} rows, {len(reader.failures)} failed, "
                f"{reader.missed} missed, {reader.twice} twice"
            )
