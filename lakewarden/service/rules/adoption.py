"""Adoption: which mode of a table is in force, in which order tables are taken over, and when. Pure.

A table is proved, then planned for a while, then acted on. A wave begins after the tables of the waves before it were
served for the time between waves, with no writer failure that met a run and no quarantine. At least one table of each
wave before it must be acted on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil
from typing import assert_never

from lakewarden.planners.model.table import ActWhen, Mode, Table, TableId
from lakewarden.planners.settings import format_duration
from lakewarden.service.model.rows import AdoptionPhase, AdoptionRow

_FURTHER = (Mode.OBSERVE, Mode.PLAN, Mode.ACT)


@dataclass(frozen=True, kw_only=True, slots=True)
class AdoptionTerms:
    """How long a table is planned before it is acted on, and how long a wave has to go well."""

    plan_for: timedelta = timedelta(hours=1)
    between_waves: timedelta = timedelta(days=1)


def mode_in_force(table: Table, row: AdoptionRow | None) -> Mode:
    """Return the mode of a table: at most the one of the configuration, and at most what its adoption allows."""
    if row is None:
        return _least(table.mode, Mode.PLAN) if table.act_when is ActWhen.ADOPTED else table.mode
    match row.phase:
        case AdoptionPhase.LEFT:
            return Mode.OBSERVE
        case AdoptionPhase.WAITING | AdoptionPhase.PROVING | AdoptionPhase.PLANNING:
            return _least(table.mode, Mode.PLAN)
        case AdoptionPhase.ACTING:
            return table.mode
        case _:
            assert_never(row.phase)


def waves_of(tables: Collection[TableId], percents: Sequence[float]) -> Mapping[TableId, int]:
    """Return the wave of each table. `percents` are the shares of all tables after each wave. The last wave has the
    rest, and each wave before it has at least one table more than the one before.

    The order depends on the ids alone, so that it is mixed and never changes.
    """
    ordered = sorted(tables, key=lambda one: hashlib.sha256(one.encode(errors="surrogatepass")).digest())
    waves: dict[TableId, int] = {}
    begin = 0
    for wave, percent in enumerate((*percents, 100.0), start=1):
        end = max(begin + 1, ceil(len(ordered) * percent / 100))
        waves |= dict.fromkeys(ordered[begin:end], wave)
        begin = end
    return waves


def closed_by(row: AdoptionRow, rows: Collection[AdoptionRow], *, now: datetime, terms: AdoptionTerms) -> str | None:
    """Return why the wave of a table must not begin yet. None if it may.

    A table that is not proved holds no other table back: nothing was done to it. But a wave without a table that is
    acted on has shown nothing, so the next one waits for it, until its tables are given back.
    """
    before = [
        one
        for one in rows
        if one.asked_at == row.asked_at and one.wave < row.wave and one.phase is not AdoptionPhase.LEFT
    ]
    unready = [one for one in before if one.phase in (AdoptionPhase.WAITING, AdoptionPhase.PLANNING)]
    if unready:
        return f"{len(unready)} tables of the waves before it are {unready[0].phase}, first {unready[0].table}"
    shown = {one.wave for one in before if one.phase is AdoptionPhase.ACTING}
    unshown = next((one for one in sorted(before, key=lambda one: one.wave) if one.wave not in shown), None)
    if unshown is not None:
        return (
            f"no table of wave {unshown.wave} is acted on, first {unshown.table} is {unshown.phase}: see what "
            f"`lakewarden doctor {unshown.table}` asks for, or give the tables of that wave back"
        )
    for one in before:
        if one.setback_at is not None and now - one.setback_at < terms.between_waves:
            return f"{one.table} had a setback at {one.setback_at:%Y-%m-%d %H:%M} UTC: {one.setback}"
    newest = max((one.since for one in before), default=None)
    if newest is not None and now - newest < terms.between_waves:
        until = f"{newest + terms.between_waves:%Y-%m-%d %H:%M} UTC"
        return f"the waves before it have to go well for {format_duration(terms.between_waves)}, until {until}"
    return None


def closed_waves(
    rows: Collection[AdoptionRow], *, now: datetime, terms: AdoptionTerms
) -> Mapping[AdoptionRow, str | None]:
    """Return for each adoption why its wave must not begin yet. None if it has begun, or may begin.

    All tables of a wave wait for the same, so each wave is judged once.
    """
    of_waves: dict[tuple[datetime, int], str | None] = {}
    for row in rows:
        wave = (row.asked_at, row.wave)
        if row.phase is AdoptionPhase.WAITING and wave not in of_waves:
            of_waves[wave] = closed_by(row, rows, now=now, terms=terms)
    return {row: of_waves[row.asked_at, row.wave] if row.phase is AdoptionPhase.WAITING else None for row in rows}


def next_row(
    row: AdoptionRow, *, closed: str | None, lacking: str | None, now: datetime, terms: AdoptionTerms
) -> AdoptionRow:
    """Return what follows. `closed` is why its wave must not begin, and `lacking` is what is not proved of its
    table.
    """
    match row.phase:
        case AdoptionPhase.WAITING:
            return row if closed is not None else replace(row, phase=AdoptionPhase.PROVING, since=now)
        case AdoptionPhase.PROVING:
            return row if lacking is not None else replace(row, phase=AdoptionPhase.PLANNING, since=now)
        case AdoptionPhase.PLANNING:
            if lacking is not None:
                return replace(row, phase=AdoptionPhase.PROVING, since=now)
            return replace(row, phase=AdoptionPhase.ACTING, since=now) if now - row.since >= terms.plan_for else row
        case AdoptionPhase.ACTING | AdoptionPhase.LEFT:
            return row
        case _:
            assert_never(row.phase)


def not_adoptable(table: Table, row: AdoptionRow | None) -> str | None:
    """Return why a table cannot be adopted. None if it can. `table` has the mode of the configuration."""
    if row is not None and row.phase is not AdoptionPhase.LEFT:
        return f"its adoption is {row.phase} already"
    if table.mode is not Mode.ACT:
        return f"its mode in the configuration is {table.mode}: set mode: act with act_when: adopted"
    if table.act_when is not ActWhen.ADOPTED and row is None:
        return "it is acted on without an adoption: set act_when: adopted to take it over in steps"
    if not table.policies:
        return "it has no services: give it a policy"
    return None


def _least(one: Mode, other: Mode) -> Mode:
    return min(one, other, key=_FURTHER.index)
