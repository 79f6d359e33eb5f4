"""The worker's JVM and its SparkSession."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from lakewarden.executors.application import ClusterApplication
from lakewarden.executors.identity import ProcessIdentity
from lakewarden.executors.profile import DEFAULTS, SparkProfile, enforced, executors_end_within, masters
from lakewarden.executors.registry import ON_SPARK
from lakewarden.executors.worker import bundles, java
from lakewarden.executors.worker.stages import RunStages
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.storage.settings import StoreSettings

# A timer in the JVM. It halts the JVM at a moment, even while the Python process beside it is frozen.

_EXIT_STATUS = 75  # EX_TEMPFAIL of sysexits.h: it is not an error of the JVM


class JvmTimer:
    """A thread of the JVM that halts it, without any cleanup, at the moment that was set last.

    It uses only classes of the JDK, by reflection. Lakewarden has no class of its own in the JVM.
    """

    def __init__(self, gateway: Any, clock: Clock) -> None:
        self._clock = clock
        java = gateway.jvm.java
        self._milliseconds = java.util.concurrent.TimeUnit.MILLISECONDS
        self._executor = java.util.concurrent.ScheduledThreadPoolExecutor(1)
        self._executor.setRemoveOnCancelPolicy(True)
        self._halt = _runnable_that_halts(gateway)
        self._until: float | None = None
        self._set: Any = None

    def set(self, until: float) -> None:
        """Let the JVM halt at `until`, in seconds of the machine's monotonic clock, and not before.

        It waits for the JVM. If there is none, it raises py4j's error.
        """
        if until == self._until:
            return
        remaining = max(until - self._clock.monotonic(), 0)
        earlier, self._set = self._set, self._executor.schedule(self._halt, int(remaining * 1000), self._milliseconds)
        self._until = until
        if earlier is not None:  # only now: one of the two timers is always set, even if this process freezes
            earlier.cancel(False)  # noqa: FBT003 - of java.util.concurrent.Future


def _runnable_that_halts(gateway: Any) -> Any:
    """Return `() -> Runtime.getRuntime().halt(75)`."""
    java = gateway.jvm.java
    handles = java.lang.invoke.MethodHandles
    takes_status = java.lang.invoke.MethodType.methodType(java.lang.Void.TYPE, java.lang.Integer.TYPE)
    status = gateway.new_array(java.lang.Object, 1)
    status[0] = _EXIT_STATUS
    halt = handles.publicLookup().bind(java.lang.Runtime.getRuntime(), "halt", takes_status)
    runnable = java.lang.Class.forName("java.lang.Runnable")
    return java.lang.invoke.MethodHandleProxies.asInterfaceInstance(runnable, handles.insertArguments(halt, 0, status))


log = structlog.get_logger(__name__)


_MASTER_SECONDS = 5.0
_OLD_DATES = ("parquet.datetime", "parquet.int96", "avro.datetime")


class SparkStoppedError(Exception):
    """The JVM lives, and its SparkContext does not."""


class Session:
    """One JVM, one SparkContext, and a SparkSession of its own for every run."""

    def __init__(
        self, profile: SparkProfile, storage: Sequence[StoreSettings] = (), needs: Collection[str] = ()
    ) -> None:
        """Start the JVM and the session, which can read the stores of `storage`. `needs` are words for further jars.

        In the main thread pyspark would handle SIGINT, so call it in another thread.
        """
        jars = bundles.jars(profile.formats, {store.scheme for store in storage}, sorted(needs))
        os.environ["JAVA_HOME"] = str(java.java_home())
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        self._bundles = ", ".join(jar.stem for jar in jars)
        if profile.is_standalone:
            _require_master(profile.master)
        context = SparkContext(conf=_conf(profile, jars))
        context.setLogLevel("WARN")
        _forget_sources(context)
        _tell_hadoop(context, storage)
        self._root = SparkSession(context)
        identity = ProcessIdentity.of(self.jvm_pid)
        self.executor = identity.to_text() if identity is not None else None
        """The identity of the JVM, so that its death can be proved. None if the system does not tell."""
        self.application = _application(profile, str(context.applicationId))
        """The application of its executors on other machines, so that their end can be proved. None if it has none."""
        self._has_remote_executors = profile.has_remote_executors
        self._timer = JvmTimer(context._gateway, SystemClock())  # noqa: SLF001 - pyspark's own access to py4j

    @property
    def jvm_pid(self) -> int:
        """The process id of the JVM."""
        return int(self._jvm.java.lang.ProcessHandle.current().pid())

    @property
    def application_id(self) -> str:
        """Return the id of the application on its cluster."""
        return str(self._root.sparkContext.applicationId)

    @property
    def versions(self) -> Mapping[str, str]:
        """The versions in use, for people."""
        java_version = str(self._jvm.java.lang.System.getProperty("java.version"))
        return {"spark": self._root.version, "java": java_version, "bundles": self._bundles}

    @property
    def file_names(self) -> str:
        """The encoding in which the JVM reads and writes the names of files."""
        return str(self._jvm.java.lang.System.getProperty("sun.jnu.encoding"))

    def ping(self) -> None:
        """Return when the JVM has answered. If there is none, raise py4j's error.

        Raises:
            SparkStoppedError: the JVM answers, but Spark has stopped its context. Spark does that after an error of its
                scheduler, for example when the code cache is full. Every later run of this JVM would fail.
        """
        if self._root.sparkContext._jsc.sc().isStopped():  # noqa: SLF001 - pyspark's own access to py4j
            raise SparkStoppedError("Spark has stopped its context after an error of its own: the log has the error")

    def misses_executors(self) -> bool:
        """Whether Spark jobs wait while the session has no executor on its cluster."""
        if not self._has_remote_executors:
            return False
        tracker = self._root.sparkContext._jsc.sc().statusTracker()  # noqa: SLF001 - pyspark's own access to py4j
        return len(tracker.getActiveJobIds()) > 0 and len(tracker.getExecutorInfos()) <= 1  # one is the driver

    def live_until(self, moment: float) -> None:
        """Let the JVM halt itself at `moment`, whatever happens to this process, unless a later moment is set
        before.
        """
        self._timer.set(moment)

    @contextlib.contextmanager
    def for_run(self, run: RunId, conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
        """Lend a new session to the calling thread. Meanwhile its Spark jobs have the run's name. Keys in `conf`
        override those of the profile.

        Java code finds it as the thread's active session. The name is a tag, in addition to the group. Code that starts
        a job may put it into another group, but the tags of a thread stay with all jobs that it starts.
        """
        context = self._root.sparkContext
        spark = self._root.newSession()
        for key, value in (conf or {}).items():
            spark.conf.set(key, value)
        active = self._jvm.org.apache.spark.sql.SparkSession
        context.setJobGroup(run, f"lakewarden run {run}", interruptOnCancel=True)
        context.addJobTag(run)
        active.setActiveSession(spark._jsparkSession)  # noqa: SLF001 - pyspark's own access to py4j
        try:
            yield spark
        finally:
            active.clearActiveSession()
            context.removeJobTag(run)
            for key in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
                context.setLocalProperty(key, None)  # type: ignore[arg-type] # None clears it

    def progress(self, run: RunId) -> Hashable:
        """Return a value that changes when a Spark job of `run` begins or ends, or a task of one. None if it is not
        known.

        Hudi and Spark put jobs into groups of their own. The tag stays with all of them.
        """
        try:
            return self._progress(run)
        except Py4JError as untold:  # `ping` tells whether the JVM is alive
            log.warning("progress_unreadable", run=run, error=str(untold))
            return None

    def _progress(self, run: RunId) -> Hashable:
        tracker = self._root.sparkContext._jsc.sc().statusTracker()  # noqa: SLF001 - pyspark's own access to py4j
        jobs = set(tracker.getJobIdsForTag(run))
        at_work = sorted(jobs.intersection(tracker.getActiveJobIds()))
        infos = [info.get() for job in at_work if (info := tracker.getJobInfo(job)).isDefined()]
        stages = {stage for info in infos for stage in info.stageIds()}
        stage_infos = [info.get() for stage in stages if (info := tracker.getStageInfo(stage)).isDefined()]
        return len(jobs), tuple(at_work), sum(stage.numCompletedTasks() for stage in stage_infos)

    def stages(self, run: RunId) -> RunStages:
        """Return the stages of a run, to be read again and again."""
        return RunStages(self._root.sparkContext._jsc.sc(), run)  # noqa: SLF001 - pyspark's own access to py4j

    def cancel_jobs(self, run: RunId) -> None:
        """Cancel the Spark jobs that are active for `run` now."""
        self._root.sparkContext.cancelJobsWithTag(run)

    def stop(self) -> None:
        """End the session without haste."""
        self._root.stop()

    @property
    def _jvm(self) -> Any:
        return self._root.sparkContext._jvm  # noqa: SLF001 - pyspark's own access to py4j


def _require_master(master: str) -> None:
    """Raise TemporaryError if no standalone master answers. Spark itself fails after a minute, and names no cause."""
    failures = []
    for host, port in masters(master):
        try:
            socket.create_connection((host, port), timeout=_MASTER_SECONDS).close()
        except OSError as away:
            failures.append(f"{host}:{port}: {away}")
        else:
            return
    raise TemporaryError(f"no Spark master answers: {'; '.join(failures)}")


def _application(profile: SparkProfile, application: str) -> str | None:
    if not profile.has_remote_executors:
        return None
    return ClusterApplication(
        master=profile.master,
        application=application,
        web_ui=profile.master_ui,
        executors_end_within=executors_end_within(profile.conf).total_seconds(),
    ).to_text()


def _forget_sources(context: SparkContext) -> None:
    """Let Hadoop forget which file each of its properties comes from, which only `getPropertySources` tells.

    Hudi sends the configuration with every task of Spark. It has nearly a thousand properties, and Hadoop compresses
    the source of each by itself. Without sources it is written in a tenth of the time: 0.5 instead of 5 ms (run). A
    class that adds default files later makes the configuration load all of them again. HDFS is the last such class.
    """
    context._jvm.org.apache.hadoop.hdfs.HdfsConfiguration.init()  # type: ignore[union-attr] # noqa: SLF001
    hadoop = context._jsc.hadoopConfiguration()  # noqa: SLF001 - pyspark's own access to py4j
    hadoop.size()  # loads the files
    sources = hadoop.getClass().getDeclaredField("updatingResource")
    sources.setAccessible(True)
    sources.get(hadoop).clear()


def _tell_hadoop(context: SparkContext, storage: Sequence[StoreSettings]) -> None:
    """Give Hadoop the properties of the stores. This happens in the JVM, because Spark's own configuration is visible
    on its command line.

    If the secret of a store is missing, the store is left out. The daemon already reports its tables as failing.
    """
    hadoop = context._jsc.hadoopConfiguration()  # noqa: SLF001 - pyspark's own access to py4j
    for store in storage:
        try:
            properties = store.hadoop_properties()
        except PermanentError as missing:
            log.warning("store_unreachable", prefix=store.prefix, reason=str(missing))
            continue
        for key, value in (properties | store.hadoop).items():
            hadoop.set(key, value)


def _conf(profile: SparkProfile, jars: tuple[Path, ...]) -> SparkConf:
    """Return the profile's configuration, overridden by the keys that Lakewarden itself sets.

    The bundles are on the driver's class path, and not in `spark.jars`. So they need not be copied at every start, and
    Kryo finds the registrator. If executors are on other machines, `spark.jars` brings the bundles there as well.

    A StackOverflowError fails its task. By default Spark exits, with the other runs of the JVM. Hudi throws one if a
    task is cancelled while it reads a log block on a disk: it opens the file again, and each attempt meets the
    interrupt (docs/hudi.md). If memory is exhausted, the JVM itself exits.

    Dates before 1582 and times before 1900 are read and written as they are. Spark 3.5 refuses them by default if
    another program wrote the file. If its dates count by the Julian calendar, the profile's `conf` may say `LEGACY`.
    """
    class_path = os.pathsep.join([*map(str, jars), *filter(None, [profile.conf.get("spark.driver.extraClassPath")])])
    everywhere = f"-Duser.timezone={profile.timezone} -XX:+ExitOnOutOfMemoryError"
    java_options = {"driver": f"{everywhere} -Djava.io.tmpdir={tempfile.gettempdir()}", "executor": everywhere}
    ours: dict[str, str] = {
        "spark.master": profile.master,
        "spark.app.name": "lakewarden",
        "spark.driver.memory": profile.memory,
        "spark.driver.extraClassPath": class_path,
        **{
            (key := f"spark.{side}.extraJavaOptions"): f"{profile.conf.get(key, '')} {options}".strip()
            for side, options in java_options.items()
        },
        "spark.sql.session.timeZone": profile.timezone,
        "spark.scheduler.mode": "FAIR",
        "spark.executor.killOnFatalError.depth": "0",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    }
    for name in profile.formats:
        ours |= ON_SPARK[name].conf
    defaults = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    defaults |= {f"spark.sql.{kind}RebaseModeIn{way}": "CORRECTED" for kind in _OLD_DATES for way in ("Read", "Write")}
    if profile.master.startswith("local"):
        defaults |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    else:
        defaults |= {"spark.jars": ",".join(str(jar) for jar in jars), **DEFAULTS}
        ours |= enforced(profile.conf)
    return SparkConf().setAll(list((defaults | profile.conf | ours).items()))
