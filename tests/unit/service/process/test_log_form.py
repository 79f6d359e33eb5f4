"""The form of the log: one event a line, as the configuration has it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

_CODE = """
from lakewarden.service.config.daemon import LogFormat, LogLevel
from lakewarden.service.process.logs import set_up_logs
import logging, structlog
set_up_logs(LogFormat("{form}"), LogLevel("{level}"))
log = structlog.get_logger()
log.info("run_started", table="trips", run="r1", instant="001", epoch=2)
log.warning("store_unavailable", error="away")
logging.getLogger("some.library").warning("odd: %s", "a\\nb")
"""


def _lines(form: str, level: str = "info") -> list[str]:
    code = _CODE.format(form=form, level=level)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()


@pytest.mark.parametrize("form", ["json", "auto"])
def test_every_line_is_json_where_no_terminal_reads_it(form: str) -> None:
    """A collector reads each line, also those of libraries. Facts are fields."""
    lines = [json.loads(line) for line in _lines(form)]

    assert [line["event"] for line in lines] == ["run_started", "store_unavailable", "library"]
    assert [lines[0][fact] for fact in ("table", "run", "instant", "epoch")] == ["trips", "r1", "001", 2]
    assert (lines[2]["logger"], lines[2]["level"]) == ("some.library", "warning")
    assert all(line["ts"].endswith("Z") for line in lines)
    assert all(list(line)[:3] == ["ts", "level", "event"] for line in lines)


def test_text_is_text_also_in_a_file() -> None:
    """An operator may want to read a file."""
    lines = _lines("text")

    assert "run_started" in lines[0]
    assert not any(line.startswith("{") for line in lines)
    assert "\x1b" not in "".join(lines)


def test_lines_below_the_level_are_left_out() -> None:
    """Warnings stay."""
    assert [json.loads(line)["event"] for line in _lines("json", "warning")] == ["store_unavailable", "library"]
