"""Adoption: a table is proved, planned and then acted on, and a wave waits until the waves before it went well."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import ActWhen, Mode, Policy, Table, TableId
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.model.rows import AdoptionPhase, AdoptionRow
from lakewarden.service.rules.adoption import (
    AdoptionTerms,
    closed_by,
    closed_waves,
    mode_in_force,
    next_row,
    not_adoptable,
    waves_of,
)
from tests.support.values import NOW

TERMS = AdoptionTerms(plan_for=timedelta(hours=1), between_waves=timedelta(days=1))
TABLE = Table(
    id=TableId("trips"),
    format="fake",
    location="/lake/trips",
    mode=Mode.ACT,
    act_when=ActWhen.ADOPTED,
    policies={Service.CLEAN: Policy(trigger=NumCommits(at_least=1))},
)
ROW = AdoptionRow(table=TABLE.id, phase=AdoptionPhase.PROVING, since=NOW, wave=1, asked_by="ada", asked_at=NOW)
SECOND = replace(ROW, table=TableId("orders"), phase=AdoptionPhase.WAITING, wave=2)


@pytest.mark.parametrize("configured", Mode)
@pytest.mark.parametrize("phase", [None, *AdoptionPhase])
def test_no_adoption_goes_beyond_the_configuration(configured: Mode, phase: AdoptionPhase | None) -> None:
    """Only `acting` is `act`, and only if the file allows it. A table that was given back is only observed."""
    row = None if phase is None else replace(ROW, phase=phase)
    mode = mode_in_force(replace(TABLE, mode=configured), row)
    order = [Mode.OBSERVE, Mode.PLAN, Mode.ACT]
    assert order.index(mode) <= order.index(configured)
    assert (mode is Mode.ACT) == (configured is Mode.ACT and phase is AdoptionPhase.ACTING)
    assert phase is not AdoptionPhase.LEFT or mode is Mode.OBSERVE


def test_a_table_without_an_adoption_is_acted_on_as_its_policy_says() -> None:
    """Only `act_when: adopted` waits for one."""
    assert mode_in_force(TABLE, None) is Mode.PLAN
    assert mode_in_force(replace(TABLE, act_when=ActWhen.PROVED), None) is Mode.ACT
    assert mode_in_force(replace(TABLE, act_when=ActWhen.AT_ONCE), None) is Mode.ACT


def test_a_table_is_acted_on_after_its_proof_and_its_time_in_plan() -> None:
    """If the proof is lost while it is planned, it begins again."""
    still = next_row(ROW, closed=None, lacking="hook: none", now=NOW, terms=TERMS)
    assert still == ROW
    planning = next_row(ROW, closed=None, lacking=None, now=NOW, terms=TERMS)
    assert planning.phase is AdoptionPhase.PLANNING
    early = NOW + TERMS.plan_for - timedelta(seconds=1)
    assert next_row(planning, closed=None, lacking=None, now=early, terms=TERMS) == planning
    late = NOW + TERMS.plan_for
    assert next_row(planning, closed=None, lacking="lock: lost", now=late, terms=TERMS).phase is AdoptionPhase.PROVING
    acting = next_row(planning, closed=None, lacking=None, now=late, terms=TERMS)
    assert (acting.phase, acting.since) == (AdoptionPhase.ACTING, late)
    assert next_row(acting, closed=None, lacking="lock: lost", now=late, terms=TERMS) == acting


def test_a_wave_begins_when_the_one_before_went_well_for_the_time_of_the_gate() -> None:
    """Trouble within this time holds it back, and is named."""
    acting = replace(ROW, phase=AdoptionPhase.ACTING)
    almost, then = NOW + TERMS.between_waves - timedelta(seconds=1), NOW + TERMS.between_waves
    assert "go well for 1d" in str(closed_by(SECOND, [acting, SECOND], now=almost, terms=TERMS))
    assert closed_by(SECOND, [acting, SECOND], now=then, terms=TERMS) is None

    held_back = replace(acting, setback="write 7 failed", setback_at=then)
    assert "write 7 failed" in str(closed_by(SECOND, [held_back, SECOND], now=then, terms=TERMS))
    assert closed_by(SECOND, [held_back, SECOND], now=then + TERMS.between_waves, terms=TERMS) is None


def test_a_table_that_is_not_proved_holds_no_wave_back() -> None:
    """Nothing was done to it, if another table of its wave is acted on. One that is planned is waited for."""
    late = NOW + TERMS.between_waves
    acting = replace(ROW, table=TableId("acting"), phase=AdoptionPhase.ACTING)
    assert closed_by(SECOND, [acting, ROW, SECOND], now=late, terms=TERMS) is None
    planning = replace(ROW, phase=AdoptionPhase.PLANNING)
    assert "are planning" in str(closed_by(SECOND, [planning, SECOND], now=late, terms=TERMS))


def test_a_wave_of_which_no_table_is_acted_on_shows_nothing() -> None:
    """The next one waits for it, however long it takes, and names it. A table that was given back is not waited for."""
    late = NOW + 100 * TERMS.between_waves
    said = str(closed_by(SECOND, [ROW, SECOND], now=late, terms=TERMS))
    assert said.startswith(f"no table of wave 1 is acted on, first {ROW.table} is proving")
    assert closed_by(SECOND, [replace(ROW, phase=AdoptionPhase.LEFT), SECOND], now=late, terms=TERMS) is None

    acting = replace(ROW, table=TableId("acting"), phase=AdoptionPhase.ACTING)
    proving = replace(SECOND, phase=AdoptionPhase.PROVING)
    third = replace(SECOND, table=TableId("third"), wave=3)
    assert "no table of wave 2 is acted on" in str(closed_by(third, [acting, proving, third], now=late, terms=TERMS))
    shown = replace(proving, phase=AdoptionPhase.ACTING)
    assert closed_by(third, [acting, shown, third], now=late, terms=TERMS) is None


def test_waves_of_another_request_do_not_count() -> None:
    """Each request has closed_waves of its own. A table that was given back is in none."""
    other = replace(ROW, phase=AdoptionPhase.ACTING, asked_at=NOW - timedelta(days=1))
    left = replace(ROW, table=TableId("left"), phase=AdoptionPhase.LEFT)
    assert closed_by(SECOND, [other, left, SECOND], now=NOW, terms=TERMS) is None


@given(
    tables=st.sets(st.text(min_size=1, max_size=8), max_size=200),
    percents=st.lists(st.floats(0.1, 99.9), max_size=5).map(sorted),
)
def test_each_table_is_in_one_wave(tables: set[str], percents: list[float]) -> None:
    """The first wave has at least one table. The order depends on the ids alone."""
    ids = [TableId(one) for one in tables]
    waves = waves_of(ids, percents)
    assert waves.keys() == set(ids)
    assert waves == waves_of(ids[::-1], percents)
    assert not ids or 1 in waves.values()


def test_a_small_first_wave_is_followed_by_larger_ones() -> None:
    """With 5 and 25 percent, three waves."""
    waves = waves_of([TableId(str(number)) for number in range(100)], [5, 25])
    assert [list(waves.values()).count(wave) for wave in (1, 2, 3)] == [5, 20, 75]


@pytest.mark.parametrize(
    ("table", "row", "why"),
    [
        (TABLE, None, None),
        (TABLE, replace(ROW, phase=AdoptionPhase.LEFT), None),
        (TABLE, ROW, "its adoption is proving already"),
        (replace(TABLE, mode=Mode.OBSERVE), None, "its mode in the configuration is observe"),
        (replace(TABLE, act_when=ActWhen.AT_ONCE), None, "it is acted on without an adoption"),
        (replace(TABLE, act_when=ActWhen.AT_ONCE), replace(ROW, phase=AdoptionPhase.LEFT), None),
        (replace(TABLE, policies={}), None, "it has no services"),
    ],
)
def test_a_table_that_cannot_be_adopted_says_why(table: Table, row: AdoptionRow | None, why: str | None) -> None:
    """With what to change in the file. A table that was given back can be adopted again."""
    said = not_adoptable(table, row)
    assert said is None if why is None else str(said).startswith(why)


@given(st.lists(st.tuples(st.sampled_from(AdoptionPhase), st.integers(1, 3), st.integers(0, 30)), max_size=8))
def test_all_tables_of_a_wave_wait_for_the_same(drawn: list[tuple[AdoptionPhase, int, int]]) -> None:
    """Each table is judged as if it were judged alone, and only those that wait are."""
    rows = [
        replace(ROW, table=TableId(f"t{number}"), phase=phase, wave=wave, since=NOW - timedelta(hours=hours))
        for number, (phase, wave, hours) in enumerate(drawn)
    ]
    closed = closed_waves(rows, now=NOW, terms=TERMS)
    waiting = AdoptionPhase.WAITING
    assert closed == {row: closed_by(row, rows, now=NOW, terms=TERMS) if row.phase is waiting else None for row in rows}
