"""Observations of the table by the daemon's own reader. They show what its writers are doing during the run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.planners.formats.iceberg.backlog.memo import Memo
from lakewarden.planners.formats.iceberg.catalogs.pointers import Pointer
from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile, ManifestDigest
from lakewarden.planners.formats.iceberg.metadata.files import read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.observing import observed
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.table import Policy, Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation
from lakewarden.planners.settings import Settings
from lakewarden.planners.triggers import NumCommits


class RunObservations:
    """The observations of one run of its table. Each reads only what is new since the one before."""

    def __init__(self, table: OpenTable, options: Settings) -> None:
        assigned = table.assignment
        self._opened = table
        self._table = Table(
            id=assigned.table,
            format=assigned.format,
            location=assigned.location,
            options=table.options,
            policies={assigned.service: Policy(trigger=NumCommits(at_least=1), options=options)},
        )
        self._file = ""
        self._metadata: TableMetadata | None = None
        self._last: Observation | None = None

    def observe(self) -> TableView:
        """Return the table as it is now. `java` is at the same version. Raises TemporaryError if the table cannot be
        read whole.
        """
        self._file = self._opened.refreshed()
        pointer, now = Pointer(token="", metadata_file=self._file), self._opened.clock.now()
        self._last = observed(self._table, self._opened.storage, self._last, pointer=pointer, token="", now=now)
        if self._last.view.faults:
            raise TemporaryError(self._last.view.faults[0])
        return self._last.view

    def metadata(self) -> TableMetadata:
        """Return the metadata of the last observation."""
        known = self._metadata
        if known is None or known.file != self._file:
            told = None if known is None else known.told
            self._metadata = known = read_table(self._file, self._opened.storage, told=told)
        return known

    def files(self, keys: Collection[int]) -> Mapping[int, LiveFile]:
        """Return the files of the last observation with these keys."""
        return {file.key: file for digest in self._digests().values() for file in digest.named(keys)}

    def deletes(self) -> tuple[LiveFile, ...]:
        """Return the delete files of the last observation."""
        return tuple(file for digest in self._digests().values() if digest.of_deletes for file in digest.live())

    def data_files(self) -> int:
        """Return the number of data files in the last observation."""
        return sum(len(digest) for digest in self._digests().values() if not digest.of_deletes)

    def everything(self) -> Iterator[LiveFile]:
        """Yield all files of the last observation."""
        return (file for digest in self._digests().values() for file in digest.live())

    def manifests_with(self, keys: Collection[int]) -> frozenset[str]:
        """Return the paths of the manifests of the last observation that list one of these files."""
        return frozenset(path for path, digest in self._digests().items() if any(digest.named(keys)))

    def _digests(self) -> Mapping[str, ManifestDigest]:
        memo = None if self._last is None else self._last.memo
        digests = memo.digests if isinstance(memo, Memo) else {}
        return {path: digest for (path, _), digest in digests.items()}
