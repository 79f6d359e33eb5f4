"""The work on delete files after data files were rewritten. Each part is a commit of its own, of the same run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from lakewarden.executors.programs.iceberg.client.errors import on_the_way_out, translated
from lakewarden.executors.programs.iceberg.client.exchange import Proposed, exchange, signature
from lakewarden.executors.programs.iceberg.client.observing import RunObservations
from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.executors.programs.iceberg.client.runners import joining_deletes
from lakewarden.executors.programs.iceberg.steps.file_groups import each
from lakewarden.executors.programs.iceberg.steps.rewriting import session_to_write_in
from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile, key_of
from lakewarden.planners.formats.iceberg.metadata.manifests import FileContent
from lakewarden.planners.formats.iceberg.metadata.metadata import until_it_does_not_yield
from lakewarden.planners.formats.iceberg.rewriting.deletes import needless
from lakewarden.planners.formats.iceberg.writers.cold import left_alone
from lakewarden.planners.model.errors import LakewardenError, UnknownError, YieldError
from lakewarden.planners.model.instant import Step


class DeleteFiles:
    """The delete files of a table after a run has rewritten data files."""

    def __init__(self, table: OpenTable, observations: RunObservations) -> None:
        self._table = table
        self._observations = observations

    def remove_needless(self) -> None:
        """Remove the delete files that no data file needs. They are found from the manifests without a scan. The commit
        is made only if the table is still at the snapshot that was read, as often as the table's `commit.retry.*`
        allow. Raises YieldError if others commit between each time.
        """
        until_it_does_not_yield(self._remove_needless, dict(self._table.java.properties()))

    def _remove_needless(self) -> None:
        self._observations.observe()
        seen = self._observations.metadata()
        keys = frozenset(file.key for file in needless(self._observations.everything(), seen.specs))
        if not keys:
            return

        def upon_what_was_seen(proposed: Proposed) -> None:
            if proposed.parent != seen.current:
                raise YieldError("others committed while needless delete files were looked for")

        with translated(Step.EXECUTE):
            update = self._update()
            for file in self._java_files(keys):
                update.deleteFile(file)
        exchange(self._table, update, upon_what_was_seen)

    def join_positions(self, partitions: frozenset[str]) -> None:
        """Rewrite the position deletes of these `partitions`, except those that a writer touches now.

        Deletes of files that are gone are dropped. Raises YieldError if a partition becomes hot meanwhile.
        """
        cold = partitions - self._hot()
        files = {file.key: file for file in self._observations.deletes()}
        if not any(_is_position_delete(file) and file.partition in cold for file in files.values()):
            return
        with translated(Step.EXECUTE):
            planner = self._table.jvm.org.apache.iceberg.actions.BinPackRewritePositionDeletePlanner(self._table.java)
            planner.init(self._table.java_map({}))
            groups = [group for group in each(planner.plan().groups()) if _partitions(group, files) <= cold]
        starting = self._observations.metadata().current
        written: list[Any] = []
        try:
            for group in groups:
                self._write(group)
                written.append(group)
            if written:
                self._exchange(written, starting, cold)
        except UnknownError:
            raise
        except LakewardenError:
            self._discard(written)
            raise

    def _hot(self) -> frozenset[str]:
        view = self._observations.observe()
        return frozenset(left_alone(view.writers, self._table.options, view.observed_at))

    def _write(self, group: Any) -> None:
        with translated(Step.EXECUTE):
            session = session_to_write_in(self._table)
            self._table.jvm.org.apache.spark.sql.SparkSession.setActiveSession(session)
            runner = joining_deletes(self._table, session)
            runner.init(self._table.java_map({}))
            group.setOutputFiles(runner.rewrite(group))

    def _exchange(self, groups: Collection[Any], starting: int | None, cold: frozenset[str]) -> None:
        with translated(Step.EXECUTE):
            update = self._update().validateFromSnapshot(starting)
            for group in groups:
                sequence = group.maxRewrittenDataSequenceNumber()
                for file in each(group.rewrittenDeleteFiles()):
                    update.deleteFile(file)
                for file in each(group.addedDeleteFiles()):
                    update.addFile(file, sequence)
        hot = sorted(self._hot() & cold)
        if hot:
            raise YieldError(f"a writer came to {hot[0] or 'the table'} while its position deletes were written anew")
        exchange(self._table, update)

    def _discard(self, groups: Collection[Any]) -> None:
        for group in groups:
            with on_the_way_out("delete the delete files that were written"):
                for file in each(group.addedDeleteFiles()):
                    self._table.java.io().deleteFile(str(file.location()))

    def _update(self) -> Any:
        update = self._table.java.newRewrite()
        for key, value in signature(self._table.assignment).items():
            update.set(key, value)
        return update

    def _java_files(self, keys: Collection[int]) -> Iterator[Any]:
        """Yield these delete files as Iceberg's own objects, from the manifests of the last observation that
        list them.
        """
        java, named = self._table.java, self._observations.manifests_with(keys)
        for manifest in each(java.currentSnapshot().deleteManifests(java.io())):
            if manifest.path() not in named:
                continue
            reader = self._table.jvm.org.apache.iceberg.ManifestFiles.readDeleteManifest(
                manifest, java.io(), java.specs()
            )
            try:
                yield from (file.copy() for file in each(reader) if key_of(str(file.location())) in keys)
            finally:
                reader.close()


def _is_position_delete(file: LiveFile) -> bool:
    """Whether a file holds position deletes outside a deletion vector. A deletion vector cannot be joined with
    others.
    """
    return file.content is FileContent.POSITION_DELETES and not file.is_vector


def _partitions(group: Any, files: Mapping[int, LiveFile]) -> frozenset[str]:
    """Return the partitions of a group's delete files. A file that was not read counts as one of an unknown
    partition.
    """
    keys = (key_of(str(task.file().location())) for task in each(group.fileScanTasks()))
    return frozenset(files[key].partition if key in files else _UNKNOWN for key in keys)


_UNKNOWN = "\0"
