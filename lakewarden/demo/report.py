"""The demo's report, and whether it counts as a success."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lakewarden.demo.writers.orders import Record

_LONGEST_REASON = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class WriterTally:
    """Commits that were acknowledged, those that failed or were never answered, and the reasons, one line each."""

    commits: int
    failures: int
    reasons: Sequence[str] = ()

    @classmethod
    def of(cls, record: Record) -> WriterTally:
        """Return the tally of a writer's record."""
        failures = record.failures()
        reasons = [batch.reason[:_LONGEST_REASON] for batch in failures]
        return cls(commits=len(record.acknowledged()), failures=len(failures), reasons=reasons)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReaderTally:
    """The queries, and how many of them failed or found rows that no commit had left."""

    queries: int
    failures: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceTally:
    """Ended runs of one service."""

    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """The maximum of a count, and its value at the end."""

    peak: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What the demo saw. `rows_wrong` counts rows that are missing, surplus, or with another value than was written.

    `counted` are the counts of the format (`FormatDemo.counted`). In JSON, each has its own name as its key. `promised`
    are the services that had to succeed.
    """

    rows_expected: int
    rows_found: int
    rows_wrong: int
    writer: WriterTally
    reader: ReaderTally
    services: Mapping[str, ServiceTally]
    counted: Mapping[str, Range]
    promised: Collection[str] = ()

    def disturbances(self) -> list[str]:
        """Return what was disturbed, one sentence each."""
        sentences = []
        if self.rows_wrong:
            sentences.append(f"{self.rows_wrong} of {self.rows_expected} rows are wrong")
        if self.writer.failures:
            sentences.append(f"{self.writer.failures} commits of the writer failed: {'; '.join(self.writer.reasons)}")
        if self.reader.failures:
            sentences.append(f"{self.reader.failures} queries of the reader failed")
        return sentences

    def shortcomings(self) -> list[str]:
        """Return what the demo promised and did not show, one sentence each. Empty is success."""
        sentences = self.disturbances()
        for service in self.promised:
            if not self.services.get(service, ServiceTally()).succeeded:
                sentences.append(f"no {service} succeeded")
        return sentences

    def as_json(self) -> dict[str, Any]:
        """Return the report for programs."""
        document = asdict(self)
        counted: dict[str, Any] = document.pop("counted")
        del document["promised"]
        return {**document, **counted}

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(self.as_json(), indent=2) + "\n", encoding="utf-8")
