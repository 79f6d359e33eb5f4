"""The lines of workers, and the runs that they belong to."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.executors.contract import Asked, Assignment, Lost, PoolEvent, WorkerEnd
from lakewarden.executors.pool.listening import Listening, RunLogs, WorkerLine, message_of
from lakewarden.executors.pool.session_pool import WorkerPool
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.printable import hide
from lakewarden.planners.model.table import TableId
from lakewarden.planners.storage.settings import S3Store, Secret
from tests.support.pool import light_worker
from tests.support.waiting import eventually

FIRST, SECOND = RunId("run-1"), RunId("run-2")


def _logs(folder: Path) -> RunLogs:
    return RunLogs(folder / "run-logs", each=65536, total=2**20)


def _assignment(run: RunId) -> Assignment:
    return Assignment(
        run=run, epoch=7, table=TableId("trips"), format="fake", location="/nowhere", service=Service.CLEAN
    )


def _messages(logs: RunLogs, run: RunId) -> list[str]:
    return [line.message for line in logs.lines(run, limit=1000) or ()]


def test_a_line_belongs_to_the_run_that_it_names_or_to_all_runs_of_its_worker(tmp_path: Path) -> None:
    """A line of a dying JVM names none, and every run of the worker needs it. A stranger's name makes no log."""
    logs, lines = _logs(tmp_path), list[WorkerLine]()
    listening = Listening(tmp_path, ["worker-1", "worker-2"], logs=logs, line=lines.append)
    for run in (FIRST, SECOND):
        listening.assigned(_assignment(run))
    (tmp_path / "worker-1.log").write_text(
        '{"event": "of the first", "run": "run-1"}\n{"event": "of a stranger", "run": "run-3"}\nof all\n'
    )
    (tmp_path / "worker-2.log").write_text("of another worker\n")

    listening.follow({"worker-1": [FIRST, SECOND], "worker-2": []})

    assert _messages(logs, FIRST) == ["of the first", "of all"]
    assert _messages(logs, SECOND) == ["of all"]
    assert logs.lines(RunId("run-3"), limit=1) is None
    assert [(one.worker, one.about and one.about.epoch) for one in lines] == [
        ("worker-1", 7),
        ("worker-1", None),
        ("worker-1", None),
        ("worker-2", None),
    ]


def test_a_secret_that_is_rotated_is_hidden_in_its_old_and_its_new_form(tmp_path: Path) -> None:
    """A worker reads a secret for each new connection, and a line may come late. A catalog comes with the run."""
    of_store, of_catalog = tmp_path / "of-store", tmp_path / "of-catalog"
    store = S3Store(prefix="s3://bucket", access_key=Secret(env="NONE"), secret_key=Secret(file=of_store))
    logs = _logs(tmp_path)
    listening = Listening(tmp_path, ["worker-1"], logs=logs, line=None, settings=[store])
    catalog = {"type": "jdbc", "password": {"env": None, "file": str(of_catalog)}, "properties": {"x.pwd": "in-words"}}
    listening.assigned(replace(_assignment(FIRST), catalog=catalog))
    for number in (1, 2):
        of_store.write_text(f"store-secret-{number}\n")
        of_catalog.write_text(f"catalog-secret-{number}\n")
        with (tmp_path / "worker-1.log").open("a") as log:
            log.write("store-secret-1, store-secret-2, catalog-secret-1, catalog-secret-2, in-words\n")
        listening.follow({"worker-1": [FIRST]})

    assert _messages(logs, FIRST) == [
        "REDACTED, store-secret-2, REDACTED, catalog-secret-2, REDACTED",
        "REDACTED, REDACTED, REDACTED, REDACTED, REDACTED",
    ]


def test_a_line_that_is_written_after_the_run_has_ended_is_still_in_its_log(tmp_path: Path) -> None:
    """The daemon hears of the end before it reads the last lines."""
    logs = _logs(tmp_path)
    listening = Listening(tmp_path, ["worker-1"], logs=logs, line=None)
    listening.assigned(_assignment(FIRST))
    (tmp_path / "worker-1.log").write_text('{"event": "run_ends", "run": "run-1"}\n')
    listening.follow({"worker-1": []})
    assert _messages(logs, FIRST) == ["run_ends"]


def test_the_long_last_words_of_one_worker_delay_neither_a_new_run_nor_the_lines_of_another(tmp_path: Path) -> None:
    """A run is given out under the lock of the lease, so a wait here would let the lease end."""
    logs, reached, passed = _logs(tmp_path), threading.Event(), threading.Event()

    def line(one: WorkerLine) -> None:
        if one.worker == "worker-1":
            reached.set()
            passed.wait(30)

    listening = Listening(tmp_path, ["worker-1", "worker-2"], logs=logs, line=line)
    (tmp_path / "worker-1.log").write_text("the first of many\n")
    (tmp_path / "worker-2.log").write_text("of another worker\n")
    last = threading.Thread(target=listening.finish, args=("worker-1", [FIRST], "it is gone"))
    last.start()
    assert reached.wait(30)

    def others() -> None:
        listening.assigned(_assignment(SECOND))
        listening.follow({"worker-2": [SECOND]})

    beside = threading.Thread(target=others, daemon=True)
    beside.start()
    beside.join(5)
    found = _messages(logs, SECOND)
    passed.set()
    last.join()

    assert found == ["of another worker"]
    assert _messages(logs, FIRST) == ["the first of many", "it is gone"]


def test_the_last_lines_of_a_worker_that_is_killed_are_in_the_log_of_its_run(tmp_path: Path) -> None:
    """When a run is reported as lost, its log has what the worker wrote, and why it ended."""
    logs, events = _logs(tmp_path), list[PoolEvent]()
    pool = WorkerPool(
        SparkProfile(formats=(), memory="512m", heartbeat="100ms"),
        directory=tmp_path,
        command=light_worker.COMMAND,
        logs=logs,
    )
    pool.start(events.append)
    eventually(lambda: pool.capacity().slots > 0)
    pool.submit(_assignment(FIRST))
    eventually(lambda: any(isinstance(event, Asked) for event in events))
    os.kill(pool._workers[0].process.pid, signal.SIGKILL)
    eventually(lambda: any(isinstance(event, Lost) for event in events))
    found = logs.lines(FIRST, limit=1000) or ()
    pool.close()

    begun = next(line for line in found if line.message == "run_begins")
    assert (begun.fields["table"], begun.fields["epoch"], begun.fields["service"]) == ("trips", "7", "clean")
    assert found[-1].source == "daemon"
    assert "is gone: its process ended" in found[-1].message


def test_a_bug_in_what_takes_the_lines_ends_neither_the_supervision_nor_the_report_of_lost_runs(tmp_path: Path) -> None:
    """A pool without its supervisor kills no worker that hangs, and a run without its keeper runs for ever."""
    lines, events = list[str](), list[PoolEvent]()

    def line(one: WorkerLine) -> None:
        lines.append(one.line.message)
        raise LookupError("a bug")

    def restarted(_end: WorkerEnd) -> None:
        raise LookupError("another bug")

    pool = WorkerPool(
        SparkProfile(formats=(), memory="512m", heartbeat="100ms"),
        directory=tmp_path,
        command=light_worker.COMMAND,
        line=line,
        restarted=restarted,
    )
    pool.start(events.append)
    eventually(lambda: pool.capacity().slots > 0)
    with (tmp_path / "worker-1.log").open("a") as log:
        log.write("the last of them\n")
    eventually(lambda: "the last of them" in lines)
    pool.submit(_assignment(FIRST))
    eventually(lambda: any(isinstance(event, Asked) for event in events))
    os.kill(pool._workers[0].process.pid, signal.SIGKILL)
    eventually(lambda: any(isinstance(event, Lost) for event in events))
    eventually(lambda: pool.capacity().slots > 0)
    pool.close()


# Lines of a worker's log.


def test_a_line_of_the_worker_has_its_run_and_its_facts_and_no_secret() -> None:
    """The facts are the context of structlog in the thread of the run. Libraries write secrets into messages."""
    hide("wJalrXUtnFEMI")
    line = {"event": "GET with wJalrXUtnFEMI", "level": "info", "ts": "2026-01-01T00:00:00Z", "run": "r1", "epoch": 3}
    line |= {"instant": None, "detail": "wJalrXUtnFEMI", "fs.s3a.encryption.key": "c2VjcmV0"}
    found = message_of(json.dumps(line))
    assert found.run == "r1"
    assert (found.line.message, found.line.level, found.line.source) == ("GET with REDACTED", "info", "worker")
    assert found.line.fields == {"epoch": "3", "detail": "REDACTED", "fs.s3a.encryption.key": "REDACTED"}


def test_a_line_of_the_jvm_has_its_trace_below_its_message() -> None:
    """Both are one line of the log."""
    text = json.dumps(
        {
            "source": "jvm",
            "ts": "2026-01-01T00:00:00.000Z",
            "level": "ERROR",
            "logger": "o.a.s.Executor",
            "run": "",
            "message": "failed",
            "exception": "java.io.IOException: full\n\tat x",
        }
    )
    found = message_of(text)
    assert found.run is None
    assert (found.line.source, found.line.level, found.line.logger) == ("jvm", "error", "o.a.s.Executor")
    assert found.line.message == "failed\njava.io.IOException: full\n\\tat x"


def test_what_a_dying_jvm_prints_is_a_line_of_no_run() -> None:
    """It is not JSON, and it is the most important line."""
    for text in ("# A fatal error has been detected", "{torn", "[1]", "{}", '{"a": 1}', "{" * 100_000):
        assert message_of(text).run is None
        assert message_of(text).line.message


@given(st.text(max_size=200))
def test_any_text_becomes_one_printable_line(text: str) -> None:
    """No line of a log can break the log, or a terminal."""
    for one in (message_of(text), message_of(json.dumps({"event": text, "level": text, "run": text, text: text}))):
        assert all(part.isprintable() for part in one.line.message.split("\n"))
