"""A short run of `./dev fuzz`, the same each time."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from fuzz.api import fuzz_api
from fuzz.readers import NAMES, Reader, readers
from fuzz.rows.command import FORMATS, made, rows_format
from fuzz.rows.contract import SeesHeldRuns
from fuzz.rows.program import Act, Program, shrunk
from fuzz.rows.running import OURS, Fault, Tally
from fuzz.trial import tried

_INPUTS = 400


def test_every_reader_is_fuzzed(tmp_path: Path) -> None:
    """Each has the name that the command knows."""
    assert tuple(readers(tmp_path)) == NAMES


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_whatever_a_file_holds_its_reader_takes_it_or_refuses_it_in_our_words(tmp_path: Path, name: str) -> None:
    """This takes bounded time and memory."""
    tally = tried(readers(tmp_path)[name], Random(7), go_on=lambda tally: tally.inputs < _INPUTS)
    assert [finding.what for finding in tally.findings] == []
    assert tally.inputs == _INPUTS


def test_what_a_reader_does_not_take_well_is_found() -> None:
    """Examples are an unexpected error, and an endless loop."""

    def strange(content: bytes) -> str:
        if content.startswith(b"{{"):
            raise KeyError(content)
        while content.startswith(b"}}"):
            pass
        return ""

    found = []
    for seed in (b"{{", b"}}"):
        reader = Reader(read=strange, seeds=[seed])
        found += tried(reader, Random(1), go_on=lambda tally: tally.inputs < 50).findings
    assert "KeyError" in found[0].what
    assert found[1].what == "took more than 2 s of a core"


# A short run of `./dev fuzz api`.


@pytest.mark.long
def test_requests_meet_no_error_of_the_daemon_and_no_answer_that_openapi_does_not_know(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """On both ports of a started daemon: valid and invalid ones, one alone, and in a row with what answers named."""
    assert not fuzz_api(tmp_path, seconds=60, seed=1), capfd.readouterr().out[-6000:]


# Programs of `./dev fuzz rows`, without Spark: how they are drawn, kept and shrunk.


@pytest.mark.parametrize("name", FORMATS)
def test_a_seed_always_makes_the_same_program_and_its_line_makes_it_again(name: str) -> None:
    program = made(7, rows_format(name))
    assert program == made(7, rows_format(name))
    assert program != made(8, rows_format(name))
    assert Program.from_json(program.to_json()) == program


@pytest.mark.parametrize("name", FORMATS)
def test_every_service_is_drawn_alone_held_and_left(name: str) -> None:
    acts = [act for seed in range(300) for act in made(seed, rows_format(name)).acts]
    ours = [act for act in acts if act.name in OURS]
    assert {act.given["service"] for act in ours if "service" in act.given} == rows_format(name).services
    assert {act.name for act in ours} == OURS
    assert any(act.given.get("until") for act in ours)


@pytest.mark.parametrize(("held", "rows"), [(False, 0), (True, 3)])
def test_a_ttl_may_delete_what_was_there_at_its_plan_and_nothing_that_came_since(
    tmp_path: Path, *, held: bool, rows: int
) -> None:
    kind = {"files": "json", "extension": True, "copied": False}
    table = rows_format("directory").make(kind, tmp_path, None)
    assert isinstance(table, SeesHeldRuns)
    table.do(Act("append", {"partition": "2020-01-01", "rows": 2}))
    table.held(is_held=held)
    table.do(Act("append", {"partition": "2020-01-01", "rows": 3}))
    shutil.rmtree(tmp_path / "t" / "dt=2020-01-01")
    table.held(is_held=False)
    assert next(iter(table.looks())).expected.total() == rows


def test_a_program_is_shrunk_to_the_acts_that_it_takes_in_so_many_tries() -> None:
    tried: list[Sequence[int]] = []

    def fails(items: Sequence[int]) -> bool:
        tried.append(items)
        return {3, 17, 18} <= set(items)

    assert shrunk(range(30), fails) == [3, 17, 18]
    assert len(tried) <= 60
    left = shrunk(range(100), lambda items: 0 in items and 99 in items, tries=4)
    assert {0, 99} <= set(left)
    assert len(left) < 100


def test_only_a_fault_of_the_same_kind_counts_as_the_same() -> None:
    fault = Fault(kind="rows by spark", what="3 rows", acts=4)
    assert fault.is_like(Fault(kind="rows by spark", what="2 rows", acts=2))
    assert not fault.is_like(Fault(kind="unexplained clean", what="3 rows", acts=4))
    assert not fault.is_like(None)


def test_a_service_that_never_succeeds_is_told_and_reasons_are_counted_without_their_numbers() -> None:
    tally = Tally()
    tally.add("clean", "succeeded")
    tally.add("archive", "refused", "instant 20261129 is held")
    tally.add("archive", "refused", "instant 20261130 is held")
    assert tally.never_succeeded(frozenset({"clean", "archive"})) == ["archive"]
    assert "archive refused: 2x instant # is held" in tally.told()
