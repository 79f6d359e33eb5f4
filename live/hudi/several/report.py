"""The report on several writers: the suite's, with the cause of each failure and the daemon's own account of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from live.hudi.several.blame import Blame, Told
from live.report import LiveReport


@dataclass(frozen=True, kw_only=True, slots=True)
class SeveralReport(LiveReport):
    """`told` are the failed writes by the daemon's own account. `disagreements` are where it differs from the verdicts.

    `unmerged_peak` is the most writes that waited at one time for a compaction to complete. `late` are the
    compactions that other runs delayed too long, one sentence each. `left_out` are the file groups that compactions
    left out, all together. `left_pending` are the instants that are still pending after the drain.
    """

    table_version: int
    releases: Sequence[str]
    verdicts: Sequence[Blame]
    told: Sequence[Told]
    disagreements: Sequence[str]
    left_pending: Sequence[str]
    unmerged_peak: int
    late: Sequence[str]
    left_out: int
    wrong_by_spark: int

    def disturbances(self) -> list[str]:
        """Return what was disturbed. Writers that lose to each other do not count."""
        found = []
        if self.rows_wrong:
            found.append(f"{self.rows_wrong} of {self.rows_expected} rows are wrong")
        if self.wrong_by_spark:
            found.append(f"{self.wrong_by_spark} of {self.rows_expected} rows are wrong by Spark's reader")
        if self.writer.caused_by_us:
            found.append(f"{self.writer.caused_by_us} commits of the writers failed because of us")
        if self.reader.failures:
            found.append(f"{self.reader.failures} queries of the reader failed")
        return found

    def shortcomings(self) -> list[str]:
        """Return what was promised and not shown, one sentence each. Empty is success."""
        found = [*LiveReport.shortcomings(self), *self.disagreements, *self.late]
        if self.left_pending:
            found.append(f"{len(self.left_pending)} instants are still pending: {', '.join(self.left_pending)}")
        return found

    def tell_more(self, console: Console) -> None:
        """Print what the suite's own report does not contain."""
        told = sum(each.ours for each in self.told)
        for line in (
            f"writers   Hudi {', '.join(self.releases)} on a table of version {self.table_version}; "
            + "; ".join(
                f"{name} {tally.commits} commits, {tally.failures} failed" for name, tally in self.writers.items()
            ),
            f"blame     {sum(v.ours for v in self.verdicts)} of {len(self.verdicts)} failures are ours; "
            f"the daemon says {told} of {len(self.told)}",
            f"backlog   {self.unmerged_peak} writes at most waited for a compaction; "
            f"compactions left out {self.left_out} file groups",
            f"spark     {self.wrong_by_spark} rows wrong by a second reader",
        ):
            console.print(line, soft_wrap=True)
        for verdict in self.verdicts:
            whose = "ours" if verdict.ours else "theirs"
            console.print(
                f"  {whose}: batch {verdict.batch} of {verdict.writer}, instant {verdict.instant}: {verdict.why}",
                markup=False,
                soft_wrap=True,
            )
