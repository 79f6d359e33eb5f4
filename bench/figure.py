"""One measured figure, compared with its goal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A measurement. `baseline` is the value that it is compared with, `ratio` the result. Both are None if there is no
    baseline.

    `goal` is in words. `met` is whether this run reached it. `least` and `most` are the range of the value that is
    judged, in several `times`.
    """

    name: str
    ours: float
    baseline: float | None
    unit: str
    ratio: float | None
    goal: str
    met: bool
    least: float | None = None
    most: float | None = None
    times: int = 1

    @property
    def judged(self) -> float:
        """The value that the goal is about."""
        return _judged(self.goal, self.ours, self.ratio)


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


def _judged(goal: str, ours: float, ratio: float | None) -> float:
    return ratio if goal.startswith("ratio") and ratio is not None else ours


def joined(measured: Sequence[Figure]) -> Figure:
    """Return the median of several measurements of one figure, with their range."""
    values = [one.judged for one in measured]
    middle = next(one for one in measured if one.judged == median_low(values))
    return replace(middle, least=min(values), most=max(values), times=len(values))


def worse(now: Figure, then: Mapping[str, Any]) -> str | None:
    """Return in words how a figure is worse than a record of it (`docs/benchmarks.json`). None if it is not.

    It is worse if it is beyond the median by more than the range of the record. A record of one measurement has no
    range, and nothing is worse than it.
    """
    if then.get("least") is None or then["goal"].startswith("ratio") != now.goal.startswith("ratio"):
        return None
    before, spread = _judged(then["goal"], then["ours"], then["ratio"]), then["most"] - then["least"]
    worse_by = before - now.judged if ">=" in now.goal else now.judged - before
    if worse_by <= spread:
        return None
    return f"{now.name} is {now.judged:,.4g}, and was {before:,.4g} ({then['least']:,.4g} to {then['most']:,.4g})"
