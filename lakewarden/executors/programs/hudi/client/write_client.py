"""Hudi's Spark write client, built by py4j so that it does one table service and nothing else to a table.

No catalog entry and no SQL extension is needed: the table's own `hoodie.properties` describe it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from lakewarden.executors.programs.hudi.client import config
from lakewarden.executors.programs.hudi.client.config import left_for_the_commit, settings_of_a_commit
from lakewarden.executors.programs.java_errors import each
from lakewarden.planners.formats.hudi.metadata.plans import EMPTIED_KEY, LEFT_OUT_KEY, DataFile
from lakewarden.planners.formats.hudi.metadata.properties import HOME
from lakewarden.planners.formats.hudi.metadata.savepoints import MARK
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.errors import PermanentError

_NO_META_FIELDS = False
_LOCK_IS_HELD = False  # the parameter asks whether to take it
_WITHOUT_LOCKING = True
_AND_LEAVE_ITS_PLAN = False
_OF_ALL = False
_IN_ANY_STATE = False  # the parameter asks for the last state of each alone
_OF_WRITES = True  # the rollbacks of compactions and clusterings left out
_NO_RESTORE = False
_ANEW = True  # whatever was there
_PARTITIONS_AT_ONCE = 200
_CLUSTERING_IS_AN_ACTION = 8  # of its own, from this table version on
LOG_FILES_BEAR_THEIR_COMMITS_FROM = 8
"""The table version from which the name of a log file holds the time of its commit. Before, it holds the time of the
base file below it, or of the compaction that is pending for its file group."""
_STRATEGIES = "org.apache.hudi.table.action.compact.strategy"
_LOCK_PROVIDER = "hoodie.write.lock.provider"
_CONFLICTS = "hoodie.write.lock.conflict.resolution.strategy"
_SIMPLE = "org.apache.hudi.client.transaction.SimpleConcurrentFileWritesConflictResolutionStrategy"
_NO_LOCK = "org.apache.hudi.client.transaction.lock.NoopLockProvider"


class HudiClient:
    """One `SparkRDDWriteClient` for one run. Not thread-safe; to be closed."""

    def __init__(
        self,
        session: Any,
        location: str,
        options: HudiTableOptions,
        service: Mapping[str, str],
        *,
        indexes: Mapping[str, str],
    ) -> None:
        """Open the table at `location`. `service` are the service's own `hoodie.*` options, `indexes` the switches of
        the table's indexes. Raises Py4JJavaError.
        """
        self.session = session
        self.jvm = session._jvm  # noqa: SLF001 - pyspark's own access to py4j
        self.location = location
        self._spark = session.sparkContext
        context = self._spark._jsc  # noqa: SLF001
        self.hudi = hudi = self.jvm.org.apache.hudi
        configuration = hudi.hadoop.fs.HadoopFSUtils.getStorageConf(context.hadoopConfiguration())
        self._meta = (
            hudi.common.table.HoodieTableMetaClient.builder()
            .setConf(configuration)
            .setBasePath(location)
            .setLoadActiveTimelineOnLoad(True)
            .build()
        )
        self.base = str(self._meta.getBasePath().toString())
        """The table's path as Hudi spells it in what it lists."""
        self.storage = self._meta.getStorage()
        """Hudi's own access to the table's storage (`HoodieStorage`)."""
        self._kept = contextlib.ExitStack()
        properties = {str(key): str(value) for key, value in dict(self._meta.getTableConfig().getProps()).items()}
        self.table_version = int(properties["hoodie.table.version"])
        settings = config.client_settings(properties, options=options, service=service, indexes=indexes)
        write_config = (
            hudi.config.HoodieWriteConfig.newBuilder()
            .withProps(self._java_map(settings))
            .withPath(location)
            .withSchema(self._schema())
            .forTable(self._meta.getTableConfig().getTableName())
            .build()
        )
        if str(write_config.getBasePath()) != location:
            raise PermanentError(
                f"Hudi would work on {write_config.getBasePath()} instead of {location}: it is not started"
            )
        self.java = hudi.client.SparkRDDWriteClient(hudi.client.common.HoodieSparkEngineContext(context), write_config)

    def path(self, path: str) -> Any:
        """Return a path as Hudi represents it (`StoragePath`)."""
        return self.hudi.storage.StoragePath(path)

    @property
    def zone(self) -> tzinfo:
        """Return the zone in which Hudi stamps instants here: the JVM's."""
        return ZoneInfo(str(self.jvm.java.util.TimeZone.getDefault().getID()))

    def schedule(self, kind: str, *, extra_metadata: Mapping[str, str]) -> str | None:
        """Put a plan of the `TableServiceType` `kind` on the timeline; None if Hudi finds nothing to plan."""
        service = getattr(self.hudi.common.model.TableServiceType, kind)
        instant = self.java.scheduleTableService(self._option(self._java_map(extra_metadata)), service)
        return str(instant.get()) if instant.isPresent() else None

    def schedule_clean(self, *, extra_metadata: Mapping[str, str]) -> str | None:
        """Do what `schedule` does for a clean, and sign the plan. Hudi's own call (`scheduleCleaning`, 1.2.0) makes the
        same calls, and drops the extra metadata.
        """
        table = self.table()
        plan = table.createCleanerPlan(self.java.getEngineContext(), self._option(self._java_map(extra_metadata)))
        if plan.isEmpty():
            return None
        with self.locked():
            instant = str(self.java.createNewInstantTime(_LOCK_IS_HELD))
            requested = self._meta.getInstantGenerator().getCleanRequestedInstant(instant)
            table.getActiveTimeline().saveToCleanRequested(requested, plan)
        return instant

    def keep_up(self, indexes: Mapping[str, str]) -> None:
        """Keep up the table's indexes by these switches from now on. Hudi reads them anew for each commit: some from
        its configuration of writes, others from a part of it that is a copy.
        """
        settings = self.java.getConfig()
        for part in (settings, settings.getMetadataConfig()):
            for key, value in indexes.items():
                part.setValue(key, value)

    def drop_indexes(self, names: Iterable[str]) -> None:
        """Remove indexes from the metadata table, by their partitions in it. Takes the table's lock."""
        self.java.dropIndex(self.java_list(names))

    def leave_failed_writes_alone(self) -> None:
        """Let a clean undo no write (`HoodieFailedWritesCleaningPolicy` NEVER)."""
        key = self.hudi.config.HoodieCleanConfig.FAILED_WRITES_CLEANER_POLICY
        self.java.getConfig().setValue(key, "NEVER")

    def retain_commits(self, commits: int) -> None:
        """Let the next clean that is planned leave what the newest so many commits show. It is planned even if nothing
        was committed since the last one.
        """
        settings = self.java.getConfig()
        settings.setValue("hoodie.clean.policy", "KEEP_LATEST_COMMITS")
        settings.setValue("hoodie.clean.commits.retained", str(commits))
        settings.setValue("hoodie.clean.trigger.max.commits", "0")

    def _none(self) -> Any:
        return self.hudi.common.util.Option.empty()

    def _option(self, value: Any) -> Any:
        return self.hudi.common.util.Option.of(value)

    def keep(self, statuses: Any) -> None:
        """Keep an RDD's partitions until the end, so that forcing it now and committing it later compute it once."""
        statuses.persist(self.jvm.org.apache.spark.storage.StorageLevel.MEMORY_AND_DISK_SER())
        self._kept.callback(statuses.unpersist)

    def withdraw(self, instant: str) -> bool:
        """Remove the plan of `instant` under the table's lock. Do nothing and return False if the plan is gone or its
        execution was begun.
        """
        with self.locked():
            return self.remove_plan(instant)

    def remove_plan(self, instant: str) -> bool:
        """Do what `withdraw` does. To be called under the lock.

        A compaction of a table below version 8 stays, and the answer is False, as soon as a writer has appended to one
        of its file groups: the log file bears the plan's time, and no reader sees its rows without the plan (run).
        """
        timeline = self._meta.reloadActiveTimeline()
        plan = next((entry for entry in _pending(timeline, instant) if entry.isRequested()), None)
        if plan is None or self._names_log_files(plan):
            return False
        timeline.deletePending(plan)
        return True

    def _names_log_files(self, plan: Any) -> bool:
        """Whether log files bear the time of a plan."""
        if self.table_version >= LOG_FILES_BEAR_THEIR_COMMITS_FROM or str(plan.getAction()) != "compaction":
            return False
        view, time = self.table().getSliceView(), str(plan.requestedTime())
        groups = each(self._meta.getActiveTimeline().readCompactionPlan(plan).getOperations().iterator())
        return any(
            logs_since(view.getLatestFileSlice(group.getPartitionPath(), group.getFileId()), time) for group in groups
        )

    def spare_folders(self, clean: str) -> bool:
        """Take the folders out of the plan of a pending clean, and note there how many of them it empties. To be called
        under the lock. If nothing is left of the plan, remove it and return False.

        A clean that was begun is made requested again before its plan is changed. So a kill in between leaves the old
        plan, or none, and never a clean in flight with an unreadable plan.
        """
        timeline = self._meta.reloadActiveTimeline()
        requested = self._meta.getInstantGenerator().getCleanRequestedInstant(clean)
        plan = timeline.readCleanerPlan(requested)
        folders = plan.getPartitionsToBeDeleted()
        if folders is None or folders.isEmpty():
            return True
        for instant in _pending(timeline, clean):
            if not instant.isRequested():
                timeline.deletePending(instant)
        timeline.deletePending(requested)
        named = plan.getFilePathsToBeDeletedPerPartition()
        if named.isEmpty() and plan.getEarliestInstantToRetain() is None:
            return False  # Hudi cannot complete a clean that neither deletes a file nor says what it retained
        emptied = sum(bool(named.containsKey(folder)) for folder in each(folders.iterator()))
        plan.setPartitionsToBeDeleted(self.java_list([]))
        plan.setExtraMetadata(self._java_map({**dict(plan.getExtraMetadata() or {}), EMPTIED_KEY: str(emptied)}))
        timeline.saveToCleanRequested(requested, self._option(plan))
        return True

    def newest_of(self, files: Iterable[DataFile]) -> frozenset[DataFile]:
        """Return those of the files that a reader of the table as it is now would read."""
        view, join = self.table().getSliceView(), self.hudi.common.util.StringUtils.join
        to_delete: dict[str, set[str]] = {}
        for file in files:
            to_delete.setdefault(file.partition, set()).add(file.name)
        newest = set()
        for partition, names in to_delete.items():
            for file_slice in each(view.getLatestFileSlices(partition).iterator()):
                read = str(join(file_slice.getAllFileNames(), "\n")).split("\n")  # one call, whatever the slice holds
                newest |= {DataFile(partition, name) for name in names.intersection(read)}
        return frozenset(newest)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the table's lock. Hudi's own calls that take it must not be made within."""
        transactions = self.java.getTransactionManager()
        transactions.beginStateChange(self._none(), self._none())
        try:
            yield
        finally:
            transactions.endStateChange(self._none())

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the table's lock over several of Hudi's own calls. Each of them would otherwise take it for itself.

        The lock is not re-entrant. A second `TransactionManager` takes it. The client makes its provider anew for each
        of its transactions, and meanwhile gets one that excludes no client (bytecode of 1.2.0, and run). So no writer
        begins, and none checks its commit, between these calls (docs/hudi.md).
        """
        settings = self.java.getConfig()
        provider = str(settings.getString(_LOCK_PROVIDER))
        lock = self.hudi.client.transaction.TransactionManager(settings, self.storage)
        lock.beginStateChange(self._none(), self._none())
        try:
            settings.setValue(_LOCK_PROVIDER, _NO_LOCK)
            yield
        finally:
            settings.setValue(_LOCK_PROVIDER, provider)
            lock.endStateChange(self._none())
            lock.close()

    def savepoint(self, commit: str, *, user: str, comment: str) -> None:
        """Save what a completed commit shows. To be called under the lock. Hudi takes it only for the time of the
        savepoint, so its clock gets a lock that excludes no client. Raises Py4JJavaError if the commit has a savepoint.
        """
        self._mark(commit)
        clock = self.java.getConfig().getTimeGeneratorConfig()
        provider = clock.getString(_LOCK_PROVIDER)
        clock.setValue(_LOCK_PROVIDER, _NO_LOCK)
        try:
            self.table().savepoint(self.java.getEngineContext(), commit, user, comment)
        finally:
            clock.setValue(_LOCK_PROVIDER, provider)
        self._unmark()

    def remove_savepoint(self, commit: str) -> None:
        """Remove a completed savepoint. To be called under the lock."""
        self._mark(commit)
        self.java.deleteSavepoint(commit)
        self._unmark()

    def undo_savepoint(self, commit: str) -> None:
        """Undo what a dead run of ours has left of a savepoint that it was making or removing. A complete savepoint
        stays. To be called under the lock.
        """
        timeline = self._meta.reloadActiveTimeline()
        for instant in _pending(timeline, commit):
            if str(instant.getAction()) == "savepoint":
                timeline.deletePending(instant)
        self._unmark()

    def note(self, mark: str, text: str) -> None:
        """Write a file of ours beside the table, below HOME, and replace what was there."""
        written = self.storage.create(self._marked(mark), _ANEW)
        written.write(bytearray(text.encode()))
        written.close()

    def _mark(self, commit: str) -> None:
        self.note(MARK, commit)

    def _unmark(self) -> None:
        self.storage.deleteFile(self._marked(MARK))

    def _marked(self, mark: str) -> Any:
        return self.path(f"{self.base}/{HOME}/{mark}")

    def archive(self, *, keep: int) -> int:
        """Archive until `keep` commits are left, and return how many instants were archived. To be called under the
        lock.
        """
        settings = self.java.getConfig()
        settings.setValue("hoodie.keep.min.commits", str(keep))
        settings.setValue("hoodie.keep.max.commits", str(keep))  # so that it archives even a single one
        table = self.table()
        layout = table.getMetaClient().getTimelineLayoutVersion()
        archivers = self.hudi.client.timeline.TimelineArchivers
        archiver = archivers.getInstance(layout, settings, table)
        # The archiver has read it. Its writer insists on a greater one.
        settings.setValue("hoodie.keep.max.commits", str(keep + 1))
        return int(archiver.archiveIfRequired(self.java.getEngineContext(), _LOCK_IS_HELD))

    def archive_left_behind(self, times: Collection[str], *, before_each: Callable[[], None]) -> int:
        """Move completed instants that Hudi's archive leaves behind, and return how many were moved. For layout 2, to
        be called under the lock. A kill leaves an instant in both timelines, and the next call moves it again.
        `before_each` is called before a file is deleted.
        """
        if not times:
            return 0
        every_state = (
            self._meta.getTimelineLayout().getTimelineFactory().createActiveTimeline(self._meta, _IN_ANY_STATE)
        )
        files: dict[str, list[Any]] = {time: [] for time in sorted(times)}
        for instant in each(every_state.getInstants().iterator()):
            if str(instant.requestedTime()) in files:
                files[str(instant.requestedTime())].append(instant)
        action = self.hudi.common.table.timeline.ActiveAction
        moved = self.java_list(action.fromInstants(self.java_list(instants)) for instants in files.values() if instants)
        writer = self.hudi.client.timeline.versioning.v2.LSMTimelineWriter
        writer.getInstance(self.java.getConfig(), self.table()).write(moved, self._none(), self._none())
        for instants in files.values():
            for instant in sorted(
                instants, key=lambda state: bool(state.isCompleted())
            ):  # so that a kill leaves none pending
                before_each()
                every_state.deleteInstantFileIfExists(instant)
        return int(moved.size())

    def choose_partitions(self, partitions: Sequence[str]) -> None:
        """Let a clustering be planned in these partitions and no others. A table without partitions (`""`) cannot be
        named. There Hudi must not leave it out because nothing has changed in it.
        """
        settings = self.java.getConfig()
        settings.setValue("hoodie.table.services.incremental.enabled", "false")
        settings.setValue("hoodie.clustering.plan.strategy.partition.selected", ",".join(partitions))

    def compact_around(self, partitions: Collection[str]) -> None:
        """Let a compaction be planned in all partitions but these. It looks through all of them, and not only through
        those written to since the last one, because that would forget the partitions that were left out then.
        """
        settings = self.java.getConfig()
        settings.setValue("hoodie.table.services.incremental.enabled", "false")
        left_out = "|".join(rf"\Q{path}\E" for path in sorted(partitions))
        if left_out:
            strategies = (f"{_STRATEGIES}.{name}" for name in ("PartitionRegexBased", "LogFileSizeBased"))
            settings.setValue("hoodie.compaction.partition.path.regex", rf"^(?!(?:{left_out})\z)")
            settings.setValue(
                "hoodie.compaction.strategy", ",".join(f"{name}CompactionStrategy" for name in strategies)
            )

    def clustering_plan(self, instant: str) -> Any:
        """Return the plan of a pending clustering, as Hudi's `HoodieClusteringPlan`; None if it is none, or gone."""
        utils = self.hudi.common.util.ClusteringUtils
        for entry in _pending(self._meta.reloadActiveTimeline(), instant):
            optional = utils.getClusteringPlan(self._meta, entry)
            if optional.isPresent():
                return optional.get().getRight()
        return None

    def lose_to_writes_alone(self) -> None:
        """Let a clustering lose to no clustering, least of all to its own. Below table version 8 it is in flight as a
        `replacecommit`, and Hudi's preference for writers would take it for a write (docs/hudi.md). It then also
        loses to any write that is only requested, if its writer is alive. From version 8 on nothing is set.
        """
        if self.table_version < _CLUSTERING_IS_AN_ACTION:
            key = "hoodie.clustering.fail.on.pending.ingestion.during.conflict.resolution"
            self.java.getConfig().setValue(key, "true")

    def write(self, call: str, instant: str, *arguments: Any) -> Any:
        """Let Hudi prepare what the pending rewrite of `instant` writes, by one of `compact`, `logCompact` and
        `cluster`. Return what is to be committed; the caller forces it. The files of an earlier attempt are undone
        before.
        """
        self._undo_attempt(instant)
        with left_for_the_commit(self.java.getConfig()):
            return getattr(self.java, call)(instant, *arguments)

    def leave_out(self, written: Any, groups: Collection[tuple[str, str]]) -> None:
        """Let a compaction be committed without these file groups, by their partitions and ids, and note in its commit
        how many they are. Its commit deletes their new base files, as those of task attempts that were repeated
        (`HoodieTable.reconcileAgainstMarkers`). From table version 8 on they are as before the plan was made.
        """
        statuses = each(written.getWriteStatuses().collect().iterator())
        kept = [
            status for status in statuses if (str(status.getPartitionPath()), str(status.getFileId())) not in groups
        ]
        written.setWriteStatuses(self._spark._jsc.parallelize(self.java_list(kept)))  # noqa: SLF001
        written.getCommitMetadata().get().addMetadata(LEFT_OUT_KEY, str(len(groups)))

    def last_compaction_left_out(self) -> bool:
        """Whether the last compaction of a merge-on-read table left out a file group of its plan (`leave_out`). Hudi
        plans the next one in the partitions written to since that plan, and would forget the file group.
        """
        timeline = self._meta.reloadActiveTimeline()
        last = timeline.getCommitTimeline().filterCompletedInstants().lastInstant()
        return bool(last.isPresent()) and LEFT_OUT_KEY in dict(
            timeline.readCommitMetadata(last.get()).getExtraMetadata()
        )

    def complete(self, call: str, instant: str, written: Any) -> None:
        """Commit what `write` has returned, by `commitCompaction` or `commitLogCompaction`."""
        table = self._option(self._committing())
        with left_for_the_commit(self.java.getConfig()):
            getattr(self.java, call)(instant, written, table)

    def complete_clustering(self, instant: str, written: Any) -> None:
        """Commit what a `cluster` has written. Hudi has no public call for it. This is the second part of its own
        joined call (`BaseHoodieTableServiceClient.commitClustering`, 1.2.0).
        """
        with left_for_the_commit(self.java.getConfig()):
            self._call("commitClustering", written, self._committing(), instant)

    def lone_files(self, partitions: Sequence[str]) -> Mapping[str, str]:
        """Return the partitions that consist of one base file alone, each with the instant of that file."""
        view = self.table().getSliceView()
        instants = {}
        for partition in partitions:
            slices = list(each(view.getLatestFileSlices(partition).iterator()))
            if len(slices) == 1 and slices[0].getBaseFile().isPresent() and not slices[0].hasLogFiles():
                instants[partition] = str(slices[0].getBaseInstantTime())
        return instants

    def undo_rewrite(self, instant: str) -> None:
        """Roll back what was written for a rewrite that was begun, and leave its plan, requested again. Do nothing to a
        rewrite that is completed or gone. To be called under the lock.
        """
        self._bear_no_runs_name()
        begun = self._begun(instant)
        if begun is not None:
            self._request_again(begun)

    def complete_without_files(self, instant: str, *, extra_metadata: Mapping[str, str]) -> None:
        """Complete the plan of a clustering or a log compaction that was not begun, without a file. Do nothing to one
        that is completed or gone. To be called within `alone`.
        """
        timeline = self._meta.reloadActiveTimeline()
        plan = next((entry for entry in _pending(timeline, instant) if entry.isRequested()), None)
        if plan is None:
            return
        kinds, none = self.hudi.common.model, self.java_list([])
        of_logs = str(plan.getAction()) == "logcompaction"
        if of_logs:
            timeline.transitionLogCompactionRequestedToInflight(plan)
        else:
            begin = self.hudi.common.util.ClusteringUtils.transitionClusteringOrReplaceRequestedToInflight
            begin(plan, self._none(), timeline)
        metadata = kinds.HoodieCommitMetadata() if of_logs else kinds.HoodieReplaceCommitMetadata()
        metadata.setOperationType(kinds.WriteOperationType.LOG_COMPACT if of_logs else kinds.WriteOperationType.CLUSTER)
        for key, value in {**extra_metadata, "schema": self._schema()}.items():
            metadata.addMetadata(key, value)
        self.java.getConfig().setValue(_CONFLICTS, _SIMPLE)  # it changes nothing, and so conflicts with no write
        self._call("setPendingInflightAndRequestedInstants", self.jvm.java.util.HashSet())
        with left_for_the_commit(self.java.getConfig()):
            if of_logs:
                self._call("completeLogCompaction", metadata, self._committing(), instant, none)
            else:
                self._call("completeClustering", metadata, none, self._committing(), instant, none)

    def undo_attempt(self, instant: str) -> None:
        """Roll back what was written for a rewrite that was begun, and leave its plan to be requested again."""
        self._bear_no_runs_name()
        self._undo_attempt(instant)

    def _undo_attempt(self, instant: str) -> None:
        """Undo what was written for a rewrite that was begun before, and let it be requested again.

        Hudi would do so by itself, in the call that executes it. If another executor's heartbeat guards the rewrite,
        nothing is done, and that call refuses. No rewrite is begun while the lock is held. One that was not begun needs
        no lock: it may be begun as well after the lock is given back, and then that call refuses.
        """
        if self._begun(instant) is None:
            return
        with self.locked():
            begun = self._begun(instant)
            heartbeats = self.java.getTableServiceClient().getHeartbeatClient()
            if begun is not None and heartbeats.isHeartbeatExpired(instant):
                self._request_again(begun)

    def _begun(self, instant: str) -> Any:
        """Return an instant as the timeline shows it in flight; None if it does not."""
        return next(
            (entry for entry in _pending(self._meta.reloadActiveTimeline(), instant) if entry.isInflight()), None
        )

    def _request_again(self, begun: Any) -> None:
        """Roll back a service's instant in flight, by the existing plan to do so, or by a new one. Its own plan is
        left, requested again. To be called under the lock.
        """
        table, context = self.table(), self.java.getEngineContext()
        instant = str(begun.requestedTime())
        planned = self.java.getTableServiceClient().getPendingRollbackInfo(self._meta, instant, _OF_ALL)
        if planned.isPresent():
            rollback = planned.get().getRollbackInstant().requestedTime()
        else:
            rollback = self.java.createNewInstantTime(_LOCK_IS_HELD)
            by_markers = self.java.getConfig().shouldRollbackUsingMarkers()
            table.scheduleRollback(context, rollback, begun, _NO_RESTORE, by_markers, _NO_RESTORE)
        table.rollback(context, rollback, begun, _AND_LEAVE_ITS_PLAN, _WITHOUT_LOCKING)
        self._meta.reloadActiveTimeline().revertInstantFromInflightToRequested(begun)

    def _call(self, name: str, *arguments: Any) -> None:
        """Call a method of Hudi's `BaseHoodieTableServiceClient` that is not public."""
        service = self.java.getTableServiceClient()
        methods = service.getClass().getSuperclass().getDeclaredMethods()
        [method] = [method for method in methods if method.getName() == name]
        method.setAccessible(True)
        given = self._spark._gateway.new_array(self.jvm.java.lang.Object, len(arguments))  # noqa: SLF001
        for place, argument in enumerate(arguments):
            given[place] = argument
        method.invoke(service, given)

    def _committing(self) -> Any:
        """Return Hudi's own view of the table for the completion of a rewrite."""
        settings = settings_of_a_commit(self.hudi, self.java.getConfig())
        return self.hudi.table.HoodieSparkTable.create(settings, self.java.getEngineContext())

    def plan_rollback(self, write: str) -> bool:
        """Plan to undo a write, unless that is planned already; False if the write is not pending.

        This is checked under the lock: Hudi would also undo a commit that was completed a moment ago. From then on a
        writer that comes back to life fails to commit.
        """
        with self.locked():
            target = next(_pending(self._meta.reloadActiveTimeline().getCommitsTimeline(), write), None)
            if target is None:
                return False
            service = self.java.getTableServiceClient()
            if service.getPendingRollbackInfo(self._meta, write, _OF_WRITES).isEmpty():
                table, context = self.table(), self.java.getEngineContext()
                instant = self.java.createNewInstantTime(_LOCK_IS_HELD)
                by_markers = self.java.getConfig().shouldRollbackUsingMarkers()
                table.scheduleRollback(context, instant, target, _NO_RESTORE, by_markers, _NO_RESTORE)
            return True

    def finish_rollback(self, write: str) -> bool:
        """Execute the rollback of `write` that is on the timeline. False if another client is executing it."""
        undone = bool(self.java.rollback(write))
        if undone:
            self.remove_heartbeat(write)
        return undone

    def remove_heartbeat(self, instant: str) -> None:
        """Remove the heartbeat file, if there is one, of an instant that is not worked on any more."""
        heartbeats = self.hudi.client.heartbeat.HeartbeatUtils
        heartbeats.deleteHeartbeatFile(self.storage, self.location, instant)

    def delete_partitions(self, partitions: Sequence[str], instant: str, *, extra_metadata: Mapping[str, str]) -> None:
        """Commit, as the `replacecommit` that was begun at `instant`, that these partitions are empty. Their files stay
        until a clean.
        """
        result = self.java.deletePartitions(self.java_list(partitions), instant)
        extra = self._option(self._java_map(extra_metadata))
        replaced = result.getPartitionToReplaceFileIds()
        self.java.commit(instant, result.getWriteStatuses(), extra, "replacecommit", replaced)

    def shows_files_of(self, partitions: Sequence[str]) -> list[str]:
        """Return the partitions that show a file of the table. The others were deleted, and wait for a clean."""
        view = self.table().getSliceView()
        return [partition for partition in partitions if view.getLatestFileSlices(partition).findAny().isPresent()]

    def partitions(self) -> list[str]:
        """Return the paths of all partitions below the table, `""` alone for a table without."""
        with self._listing() as listing:
            return [str(path) for path in listing.getAllPartitionPaths()]

    def count_data_files(self, *, beyond: float) -> int:
        """Return how many base and log files the table has, as its metadata table knows them. Without one, they are
        listed. The count stops when it exceeds `beyond`.
        """
        counted = 0
        with self._listing() as listing:
            base = self.base
            folders = [f"{base}/{path}" if path else base for path in listing.getAllPartitionPaths()]
            for start in range(0, len(folders), _PARTITIONS_AT_ONCE):
                some = self.java_list(folders[start : start + _PARTITIONS_AT_ONCE])
                files = listing.getAllFilesInPartitions(some)  # wants whole paths, where the other gives relative ones
                counted += sum(int(statuses.size()) for statuses in files.values())
                if counted > beyond:
                    break
        return counted

    def forget_metadata_table(self) -> None:
        """Remove the metadata table, with all its indexes, from the table's properties. To be called under the lock."""
        meta = self.table().getMetaClient()
        meta.getTableConfig().clearMetadataPartitions(meta)

    def make_metadata_table(self) -> None:
        """Make the metadata table, with the indexes of the last `keep_up`. To be called within `alone`."""
        made = self.table().getIndexingMetadataWriter("")
        if made.isPresent():
            made.get().close()

    def stop_heartbeat(self, instant: str) -> None:
        """Stop the heartbeat of an instant that stays pending, so that its next executor does not wait for it."""
        self.java.getTableServiceClient().getHeartbeatClient().stop(instant)

    def close(self) -> None:
        """Stop everything that the client has started, and free what it has kept."""
        with contextlib.closing(self.java):
            self._kept.close()

    @contextlib.contextmanager
    def _listing(self) -> Iterator[Any]:
        """Open Hudi's own listing of the table's files (`HoodieTableMetadata`)."""
        settings = self.java.getConfig().getMetadataConfig()
        made = self._meta.getTableFormat().getMetadataFactory()
        listing = made.create(self.java.getEngineContext(), self.storage, settings, self.location)
        try:
            yield listing
        finally:
            listing.close()

    def _bear_no_runs_name(self) -> None:
        """Make the Spark jobs from here on independent of the run's cancellation: they undo its work."""
        self._spark.setLocalProperty("spark.jobGroup.id", None)

    def table(self) -> Any:
        """Return Hudi's own view of the table, as it is now."""
        spark_table = self.hudi.table.HoodieSparkTable
        return spark_table.create(self.java.getConfig(), self.java.getEngineContext())

    def columns(self) -> frozenset[str]:
        """Return the names of the table's columns."""
        return frozenset(str(field["name"]) for field in json.loads(self._schema())["fields"])

    def evolved_schema(self) -> Any:
        """Return the table's newest schema with the ids of its columns, as Hudi's `InternalSchema`. None if its columns
        were never changed with `hoodie.schema.on.read.enable`.
        """
        self._meta.reloadActiveTimeline()
        resolver = self.hudi.common.table.TableSchemaResolver(self._meta)
        optional = resolver.getTableInternalSchemaFromCommitMetadata()
        return optional.get() if optional.isPresent() else None

    def read_by_column_ids(self) -> None:
        """Let a clustering find the columns of a table with an evolved schema by their ids. Else it takes the names as
        they are in each file: a renamed column is lost, and a dropped one returns (run). Hudi's compactions look for
        the schema themselves.
        """
        schema, settings = self.evolved_schema(), self.java.getConfig()
        if schema is not None:
            settings.setSchema(self._schema())
            settings.setInternalSchemaString(self.hudi.internal.schema.utils.SerDeHelper.toJson(schema))

    def _schema(self) -> str:
        """Return the table's schema as Avro JSON, by the name that Hudi 1.2 has for it."""
        resolver = self.hudi.common.table.TableSchemaResolver(self._meta)
        return str(resolver.getTableSchema(_NO_META_FIELDS).toString())

    def java_list(self, entries: Iterable[Any]) -> Any:
        """Return a `java.util.List`."""
        java_list = self.jvm.java.util.ArrayList()
        for entry in entries:
            java_list.add(entry)
        return java_list

    def _java_map(self, entries: Mapping[str, str]) -> Any:
        java_map = self.jvm.java.util.HashMap()
        for key, value in entries.items():
            java_map.put(key, value)
        return java_map


def logs_since(file_slice: Any, instant: str) -> Mapping[str, int]:
    """Return the paths and lengths of the log files in an optional file slice of a pending compaction's time. Hudi
    shows there what that compaction does not merge.
    """
    if not file_slice.isPresent() or str(file_slice.get().getBaseInstantTime()) != instant:
        return {}
    files = each(file_slice.get().getLogFiles().iterator())
    return {str(file.getPath().toString()): int(file.getFileSize()) for file in files}


def _pending(timeline: Any, time: str) -> Iterator[Any]:
    """Yield the instants of one requested time that a timeline of Hudi's shows as pending."""
    instants = timeline.filterInflightsAndRequested().getInstants()
    return (instant for instant in each(instants.iterator()) if str(instant.requestedTime()) == time)
