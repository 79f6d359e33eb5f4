"""A short run of `./dev fuzz`, the same each time."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from fuzz.readers import NAMES, Reader, readers
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
