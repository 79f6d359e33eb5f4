"""The corpus of hostile tables, which is the base of `./dev faults --hostile`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support.hostile import hostile_avro
from tests.support.hostile.hostile_table import SMALL
from tests.support.hostile.hostile_tables import make_corpus, untouched, whole_corpus


def test_every_hostile_table_can_be_made_and_has_a_name_of_its_own(tmp_path: Path) -> None:
    """A missing table would attack nothing."""
    made = make_corpus(tmp_path, scale=SMALL)
    assert {one.name for one in made} == {path.name for path in (tmp_path / "tables").iterdir()}
    assert max(Counter(one.name for one in whole_corpus()).values()) == 1
    assert all(one.attacks for one in made)


@pytest.mark.parametrize(
    ("content", "at_most"),
    [
        (hostile_avro.of_itself(5000), 5_200),
        (hostile_avro.of_empty_records(), 130),
        (hostile_avro.of_doubled_names(), 8_000),
        (hostile_avro.of_zeros(3 * 2**30), 4 * 2**20),
    ],
    ids=["itself", "empty records", "doubled names", "zeros"],
)
def test_what_costs_a_reader_everything_weighs_nothing(content: bytes, at_most: int) -> None:
    """No limit on the size of a file catches these."""
    assert len(content) <= at_most


def test_what_was_touched_is_seen(tmp_path: Path) -> None:
    """A changed canary and a missing one are found."""
    make_corpus(tmp_path, scale=SMALL, only=["clean_of_another_table"])
    before = untouched(tmp_path / "foreign")
    assert untouched(tmp_path / "foreign") == before
    canary = next((tmp_path / "foreign" / "p0").glob("keep-*"))
    canary.write_bytes(b"touched")
    assert untouched(tmp_path / "foreign") != before
    canary.unlink()
    assert set(before) - set(untouched(tmp_path / "foreign")) == {f"p0/{canary.name}"}
