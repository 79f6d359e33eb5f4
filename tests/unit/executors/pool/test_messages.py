"""Lines of a worker's log."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.executors.pool.listening import message_of
from lakewarden.planners.model.printable import hide


def test_a_line_of_the_worker_has_its_run_and_its_facts() -> None:
    """They are the context of structlog in the thread of the run."""
    text = json.dumps(
        {"event": "permit", "level": "info", "ts": "2026-01-01T00:00:00Z", "run": "r1", "epoch": 3, "instant": None}
    )
    found = message_of(text)
    assert found.run == "r1"
    assert (found.line.message, found.line.level, found.line.source) == ("permit", "info", "worker")
    assert found.line.fields == {"epoch": "3"}


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


def test_the_secrets_of_the_stores_are_hidden() -> None:
    """Libraries write them into messages."""
    hide("wJalrXUtnFEMI")
    found = message_of(json.dumps({"event": "GET with wJalrXUtnFEMI", "detail": "wJalrXUtnFEMI"}))
    assert found.line.message == "GET with REDACTED"
    assert found.line.fields == {"detail": "REDACTED"}


def test_a_field_with_the_name_of_a_secret_is_hidden() -> None:
    """The value of a field does not repeat the name."""
    found = message_of(json.dumps({"event": "begins", "fs.s3a.encryption.key": "c2VjcmV0", "table": "trips"}))
    assert found.line.fields == {"fs.s3a.encryption.key": "REDACTED", "table": "trips"}
