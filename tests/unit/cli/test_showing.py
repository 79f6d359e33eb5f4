"""What a terminal and a pipe get: hostile names stay text, at any width."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from lakewarden.cli.terminal import Column, Kind, listed, none_of, show_items

COLUMNS = (
    Column("ID", "id"),
    Column("SIZE", "size", Kind.SIZE),
    Column("AT", "at", Kind.AGO),
    Column("STATE", "state", Kind.STATE),
)
NASTY = "a\x1b[2J\u202egpj.exe\tb\nc\r[bold red]x[/]:smile: \ud800 " + "w" * 300
TEXTS = st.text(st.characters(), max_size=40) | st.just(NASTY)
ITEMS = st.lists(
    st.fixed_dictionaries(
        {
            "id": TEXTS,
            "size": st.none() | st.integers(0, 2**60),
            "at": TEXTS | st.none() | st.just("2026-05-01T12:00:00Z"),
            "state": TEXTS,
        }
    ),
    max_size=4,
)


@given(items=ITEMS, width=st.integers(20, 200))
def test_a_list_fits_the_terminal_and_controls_nothing(items: list[dict[str, object]], width: int) -> None:
    """No line is wider than the terminal, no escape of a name reaches it, and no name is taken for markup."""
    out = io.StringIO()
    Console(file=out, width=width, markup=False, emoji=False, highlight=False).print(listed(items, COLUMNS))
    lines = out.getvalue().split("\n")
    assert all(cell_len(line) <= width for line in lines)
    assert all(line.isprintable() for line in lines)
    out.getvalue().encode()


@given(items=ITEMS)
def test_a_pipe_gets_a_line_an_item_with_as_many_columns_as_titles(items: list[dict[str, object]]) -> None:
    """No tab and no line break of a name can shift a column for the program that reads it."""
    with pytest.MonkeyPatch.context() as patched:
        out = io.StringIO()
        patched.setattr("sys.stdout", out)
        patched.setattr("sys.stderr", io.StringIO())
        show_items(items, COLUMNS, empty="there is none")
    lines = out.getvalue().removesuffix("\n").split("\n")
    assert lines[0] == "ID\tSIZE\tAT\tSTATE"
    assert len(lines) == 1 + len(items)
    assert {line.count("\t") for line in lines} == {len(COLUMNS) - 1}
    assert all(line.replace("\t", "").isprintable() for line in lines)


def test_a_name_with_markup_is_shown_as_it_is() -> None:
    """Rich would take brackets for colours otherwise."""
    out = io.StringIO()
    item = {"id": "[red]orders[/red]", "size": 2048, "at": None, "state": "FAILED"}
    Console(file=out, width=100, markup=False).print(listed([item], COLUMNS))
    assert "[red]orders[/red]" in out.getvalue()
    assert "2.0 KiB" in out.getvalue()


def test_an_empty_list_says_whether_there_is_nothing_or_nothing_that_fits() -> None:
    """After the first start there are no runs yet, and that is no wrong argument."""
    assert none_of("run", {"table": None, "state": None}) == "no runs yet"
    assert none_of("run", {"table": "trips", "state": None}) == "no run matches these options"
