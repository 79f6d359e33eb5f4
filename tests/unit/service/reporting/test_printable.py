"""What tables and senders are called, where it is shown: on terminals, in logs, answers and metrics."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import unicodedata
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakewarden import cli
from lakewarden.cli.exit_codes import Code
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.printable import LONGEST, printable, printable_values
from lakewarden.service.commands.observing import explain_path
from lakewarden.service.http.errors import Answer
from tests.support.hudi.hudi_table import HudiTable

TEXTS = st.text(st.characters(), max_size=200) | st.text(st.characters(categories=["Cc", "Cf", "Cs"]), max_size=50)
NASTY = "trips\x1b[2J\x07\u202egpj\ud800\u2066\r\n[bold red]x[/]\x00\u0085\x9b31m"
VALUES = st.recursive(
    TEXTS | st.none() | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
)


def is_printable(text: str, *, lines: bool = False) -> bool:
    """Whether no part of a text does anything but stand there, and it can be encoded."""
    text.encode()
    return all(unicodedata.category(one)[0] != "C" or (lines and one == "\n") for one in text)


@given(text=TEXTS, lines=st.booleans())
@example(text=NASTY, lines=False)
@example(text="x" * 10**6, lines=True)
def test_whatever_goes_in_comes_out_printable_encodable_and_bounded(text: str, lines: bool) -> None:
    """A text that needs nothing stays as it is."""
    shown = printable(text, lines=lines)
    assert is_printable(shown, lines=lines)
    assert len(shown) <= 10 * LONGEST + 40
    assert shown == text or not text.isprintable() or len(text) > LONGEST
    assert printable(shown, most=len(shown), lines=lines) == shown


@given(value=VALUES)
def test_every_text_of_a_value_is_printable(value: Any) -> None:
    """Keys among them, whatever it is nested in; it is JSON before and after."""
    shown = json.dumps(printable_values(value), ensure_ascii=False)
    assert is_printable(shown)


@given(value=VALUES)
def test_every_answer_can_be_encoded(value: Any) -> None:
    """A lone surrogate in one table's name made the list of all tables an error."""
    json.loads(bytes(Answer(value).body))


@pytest.fixture
def table(tmp_path: Path) -> HudiTable:
    """Return a table with a name that would take the terminal over, and that many other texts hold."""
    made = HudiTable(tmp_path / "trips", version=9, clock=ManualClock(), zone=UTC)
    escaped = NASTY.encode("utf-16-be", "surrogatepass")
    name = "".join(f"\\u{escaped[at]:02x}{escaped[at + 1]:02x}" for at in range(0, len(escaped), 2))
    with (made.home / "hoodie.properties").open("a") as file:
        file.write(f"hoodie.table.name={name}\nhoodie.table.version=9{name}\n")
    made.put("20260101000000001.clean.requested", b"\x1b[31m")
    return made


@pytest.mark.parametrize("as_json", [True, False])
def test_explain_shows_a_name_that_does_nothing(table: HudiTable, as_json: bool) -> None:
    """Neither its text nor its JSON does anything."""
    out = io.StringIO()
    explain_path(str(table.folder), config=None, format_name=None, as_json=as_json, out=out)
    assert "trips" in out.getvalue()
    assert is_printable(out.getvalue(), lines=True)
    if as_json:
        assert is_printable(json.loads(out.getvalue())["name"])


def test_what_the_command_line_refuses_is_told_without_its_escapes(
    table: HudiTable, capsys: pytest.CaptureFixture[str]
) -> None:
    """Paths are input, too."""
    assert cli.main(["explain", f"{table.folder}/\x1b[2J\u202e"]) == Code.USAGE
    said = capsys.readouterr()
    assert is_printable(said.err, lines=True)
    assert "[2J" in said.err


def test_a_log_line_is_one_line_whatever_it_tells_of() -> None:
    """Escapes are escaped, halves of pairs encoded, keys too."""
    code = (
        "from lakewarden.service.process.logs import set_up_logs; import structlog; set_up_logs();"
        f"structlog.get_logger().warning('seen', **{{'table': {NASTY!a}, 'at': [{NASTY!a}], {NASTY!a}: 'x' * 10**6}})"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr
    assert is_printable(said, lines=True)
    assert said.count("\n") == 1
    assert len(said) < 10_000
    assert json.loads(said)["table"].startswith("trips\\x1b[2J")
