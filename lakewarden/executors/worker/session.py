"""The worker's JVM and its SparkSession."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from lakewarden.executors.identity import ProcessIdentity
from lakewarden.executors.profile import SparkProfile
from lakewarden.executors.worker import bundles, java
from lakewarden.executors.worker.jvm_timer import JvmTimer
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.storage.settings import StoreSettings

log = structlog.get_logger(__name__)


class Session:
    """One JVM, one SparkContext, and a SparkSession of its own for every run."""

    def __init__(self, profile: SparkProfile, storage: Sequence[StoreSettings] = ()) -> None:
        """Start the JVM and the session, which reaches the stores of `storage`.

        In the main thread pyspark would take SIGINT over: call it in another.
        """
        jars = bundles.jars(profile.formats, {store.scheme for store in storage})
        os.environ["JAVA_HOME"] = str(java.java_home())
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        self._bundles = ", ".join(jar.stem for jar in jars)
        context = SparkContext(conf=_conf(profile, jars))
        context.setLogLevel("WARN")
        _tell_hadoop(context, storage)
        self._root = SparkSession(context)
        identity = ProcessIdentity.of(self.jvm_pid)
        self.executor = identity.to_text() if identity is not None else None
        """Who the JVM is, so that it can be proved dead; None where the system does not tell."""
        self._timer = JvmTimer(context._gateway, SystemClock())  # noqa: SLF001 - pyspark's own door to py4j

    @property
    def jvm_pid(self) -> int:
        """The process id of the JVM."""
        return int(self._jvm.java.lang.ProcessHandle.current().pid())

    @property
    def versions(self) -> Mapping[str, str]:
        """What runs here, for people."""
        java_version = str(self._jvm.java.lang.System.getProperty("java.version"))
        return {"spark": self._root.version, "java": java_version, "bundles": self._bundles}

    @property
    def file_names(self) -> str:
        """The encoding in which the JVM reads and writes the names of files."""
        return str(self._jvm.java.lang.System.getProperty("sun.jnu.encoding"))

    def ping(self) -> None:
        """Return when the JVM has answered; raises whatever py4j raises where there is none."""
        self._jvm.java.lang.System.currentTimeMillis()

    def live_until(self, moment: float) -> None:
        """Let the JVM halt itself at `moment`, whatever happens to this process, unless a later one is set before."""
        self._timer.set(moment)

    @contextlib.contextmanager
    def for_run(self, run: RunId, conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
        """Lend a new session to the calling thread, whose Spark jobs bear the run's name meanwhile. What `conf` says
        counts before the profile's.

        It is the one that Java code finds as the thread's active session. The name is a tag besides the group: whoever
        starts a job may put it into a group of its own, while the tags of a thread stay with all that it starts.
        """
        context = self._root.sparkContext
        spark = self._root.newSession()
        for key, value in (conf or {}).items():
            spark.conf.set(key, value)
        active = self._jvm.org.apache.spark.sql.SparkSession
        context.setJobGroup(run, f"lakewarden run {run}", interruptOnCancel=True)
        context.addJobTag(run)
        active.setActiveSession(spark._jsparkSession)  # noqa: SLF001 - pyspark's own door to py4j
        try:
            yield spark
        finally:
            active.clearActiveSession()
            context.removeJobTag(run)
            for key in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
                context.setLocalProperty(key, None)  # type: ignore[arg-type] # None clears it

    def progress(self, run: RunId) -> Hashable:
        """Return what changes when a Spark job of `run` begins or ends, or a task of one; None where nobody tells.

        Hudi and Spark put jobs into groups of their own; the tag stays with all of them.
        """
        try:
            return self._progress(run)
        except Py4JError as untold:  # whether the JVM lives is asked by `ping`
            log.warning("the progress of a run cannot be read", run=run, error=str(untold))
            return None

    def _progress(self, run: RunId) -> Hashable:
        tracker = self._root.sparkContext._jsc.sc().statusTracker()  # noqa: SLF001 - pyspark's own door to py4j
        jobs = set(tracker.getJobIdsForTag(run))
        at_work = sorted(jobs.intersection(tracker.getActiveJobIds()))
        infos = [info.get() for job in at_work if (info := tracker.getJobInfo(job)).isDefined()]
        stages = {stage for info in infos for stage in info.stageIds()}
        known = [info.get() for stage in stages if (info := tracker.getStageInfo(stage)).isDefined()]
        return len(jobs), tuple(at_work), sum(stage.numCompletedTasks() for stage in known)

    def cancel_jobs(self, run: RunId) -> None:
        """Cancel the Spark jobs that are active for `run` now."""
        self._root.sparkContext.cancelJobsWithTag(run)

    def stop(self) -> None:
        """End the session in good order."""
        self._root.stop()

    @property
    def _jvm(self) -> Any:
        return self._root.sparkContext._jvm  # noqa: SLF001 - pyspark's own door to py4j


def _tell_hadoop(context: SparkContext, storage: Sequence[StoreSettings]) -> None:
    """Give Hadoop the properties of the stores: in the JVM, since Spark's own configuration is on its command line.

    A store whose secret is missing is left out: its tables are in trouble already, where the daemon looks at them.
    """
    hadoop = context._jsc.hadoopConfiguration()  # noqa: SLF001 - pyspark's own door to py4j
    for store in storage:
        try:
            properties = store.hadoop_properties()
        except PermanentError as missing:
            log.warning("a store cannot be reached", prefix=store.prefix, reason=str(missing))
            continue
        for key, value in (properties | store.hadoop).items():
            hadoop.set(key, value)


def _conf(profile: SparkProfile, jars: tuple[Path, ...]) -> SparkConf:
    """Return the profile's configuration, and over it what Lakewarden itself must set.

    The bundles lie on the driver's class path, not in `spark.jars`: they need not be copied at every start, and Kryo
    finds the registrator. Where executors are other machines, `spark.jars` takes them there as well.
    """
    class_path = os.pathsep.join([*map(str, jars), *filter(None, [profile.conf.get("spark.driver.extraClassPath")])])
    everywhere = f"-Duser.timezone={profile.timezone} -XX:+ExitOnOutOfMemoryError"
    java_options = {"driver": f"{everywhere} -Djava.io.tmpdir={tempfile.gettempdir()}", "executor": everywhere}
    ours = {
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
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    }
    if "hudi" in profile.formats:
        ours["spark.kryo.registrator"] = "org.apache.spark.HoodieSparkKryoRegistrar"
    defaults = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    if profile.master.startswith("local"):
        defaults |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    else:
        defaults["spark.jars"] = ",".join(str(jar) for jar in jars)
    return SparkConf().setAll(list((defaults | profile.conf | ours).items()))
