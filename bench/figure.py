"""One measured figure, compared with its goal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A measurement. `baseline` is the value that it is compared with, `ratio` the result. Both are None if there is no
    baseline.

    `goal` is in words. `met` is whether this run reached it.
    """

    name: str
    ours: float
    baseline: float | None
    unit: str
    ratio: float | None
    goal: str
    met: bool


def figure(
    name: str,
    ours: float,
    unit: str,
    *,
    judged: Literal["ours", "ratio"],
    goal: tuple[Literal[">=", "<="], float],
    baseline: float | None = None,
    ratio: float | None = None,
) -> Figure:
    """Return a figure, judged by its own value or by its ratio."""
    value = ours if judged == "ours" else ratio
    if value is None:
        raise ValueError(f"{name} is judged by a ratio that was not measured")
    relation, bound = goal
    return Figure(
        name=name,
        ours=round(ours, 3),
        baseline=None if baseline is None else round(baseline, 3),
        unit=unit,
        ratio=None if ratio is None else round(ratio, 3),
        goal=f"{'ratio ' if judged == 'ratio' else ''}{relation} {bound:g}",
        met=value >= bound if relation == ">=" else value <= bound,
    )
