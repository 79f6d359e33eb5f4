"""What is done about delete files after data files were rewritten: each in a commit of its own, of the same run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from lakewarden.executors.contract import Step
from lakewarden.executors.programs.iceberg.client.errors import on_the_way_out, translated
from lakewarden.executors.programs.iceberg.client.exchange import Proposed, exchange
from lakewarden.executors.programs.iceberg.client.looks import Looks
from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.executors.programs.iceberg.client.runners import joining_deletes
from lakewarden.executors.programs.iceberg.client.signature import signature
from lakewarden.executors.programs.iceberg.steps.file_groups import each
from lakewarden.executors.programs.iceberg.steps.writing import session_to_write_in
from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile, key_of
from lakewarden.planners.formats.iceberg.metadata.manifests import Content
from lakewarden.planners.formats.iceberg.rewriting.deletes import needless
from lakewarden.planners.formats.iceberg.writers.cold import left_alone
from lakewarden.planners.model.errors import LakewardenError, UnknownError, YieldError

_ATTEMPTS = 5


class DeleteFiles:
    """The delete files of a table whose data files were rewritten by a run."""

    def __init__(self, table: OpenTable, looks: Looks) -> None:
        self._table = table
        self._looks = looks

    def remove_needless(self) -> None:
        """Remove the delete files that no data file needs. It is told from what was read of the manifests, without a
        scan, and committed only upon the very snapshot that it was told from. Raises YieldError where others commit
        between each time.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._remove_needless()
            except YieldError:
                if attempt == _ATTEMPTS:
                    raise
            else:
                return

    def _remove_needless(self) -> None:
        self._looks.look()
        seen = self._looks.metadata()
        keys = frozenset(one.key for one in needless(self._looks.everything(), seen.specs))
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
        """Write the position deletes of these `partitions` anew, but of none that a writer is at now.

        Those of files that are gone are left out. Raises YieldError where a partition becomes hot meanwhile.
        """
        cold = partitions - self._hot()
        files = {file.key: file for file in self._looks.deletes()}
        if not any(_is_position_delete(file) and file.partition in cold for file in files.values()):
            return
        with translated(Step.EXECUTE):
            planner = self._table.jvm.org.apache.iceberg.actions.BinPackRewritePositionDeletePlanner(self._table.java)
            planner.init(self._table.java_map({}))
            groups = [group for group in each(planner.plan().groups()) if _partitions(group, files) <= cold]
        starting = self._looks.metadata().current
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
        view = self._looks.look()
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
        """Yield these delete files as Iceberg's own objects, from the manifests of the last look that tell of them."""
        java, named = self._table.java, self._looks.manifests_with(keys)
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
    """Whether a file holds position deletes that are not in a deletion vector: those have nothing to be joined with."""
    return file.content is Content.POSITION_DELETES and not file.is_vector


def _partitions(group: Any, files: Mapping[int, LiveFile]) -> frozenset[str]:
    """Return the partitions of a group's delete files; one that nobody knows stands for those that we did not read."""
    keys = (key_of(str(task.file().location())) for task in each(group.fileScanTasks()))
    return frozenset(files[key].partition if key in files else _UNKNOWN for key in keys)


_UNKNOWN = "\0"
