"""The page of the figures, from a report: `python -m docs.benchmarks [FILE]` writes `benchmarks.md` anew.

FILE is what `./dev bench --report FILE` wrote, without `--brief`. Its figures replace those of the same name in
`benchmarks.json`, and the page is written from that.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.__main__ import LONG, NAMES

HERE = Path(__file__).parent
REPORT = HERE / "benchmarks.json"
PAGE = HERE / "benchmarks.md"

Record = Mapping[str, Any]
"""A figure as `bench` reports it, with the day, the revision and the machine; `what` describes it."""

_HEAD = """\
# Benchmarks

<!-- Written by `python -m docs.benchmarks` from benchmarks.json. Do not edit. -->

`./dev bench NAME` measures a figure. A figure with a range is the median of several runs. Every other one was measured
once, most of them beside other work on a shared machine with 2 cores: read it as an order of magnitude. A goal in bold
is missed. `5x` compares with the baseline.
[benchmarks.json](benchmarks.json) has the revision, the machine and the remarks.

    ./dev bench --times 3 --report report.json        # some minutes for each
    python -m docs.benchmarks report.json             # puts the figures on this page
    ./dev bench pool --against docs/benchmarks.json   # fails if a figure is worse than here by more than its range

"""


def read(report: Path) -> Sequence[Record]:
    """Return the figures of a report."""
    found: list[Record] = json.loads(report.read_text(encoding="utf-8"))
    return found


def merged(old: Sequence[Record], new: Sequence[Record]) -> Sequence[Record]:
    """Return the old figures with the new ones in the place of those of the same name; what is added follows."""
    fresh = {record["name"]: record for record in new}
    what = {record["name"]: record["what"] for record in old if "what" in record}
    kept = [fresh.pop(record["name"], record) for record in old]
    return [{**record, **({"what": what[name]} if (name := record["name"]) in what else {})} for record in kept] + [
        *fresh.values()
    ]


def text(records: Sequence[Record]) -> str:
    """Return the page."""
    rows = [
        f"| `{record['name']}` | {_ours(record)} | {_number(record['baseline'])} | {_goal(record)} "
        f"| {record['measured']} | {record.get('what', '')} |"
        for record in records
    ]
    return _HEAD + "\n".join(
        ["| figure | ours | baseline | goal | measured | what |", "|---|---|---|---|---|---|", *rows, ""]
    )


def _ours(record: Record) -> str:
    if record["ours"] is None:
        return _times(record["ratio"])
    ratio = f" ({_times(record['ratio'])})" if record["goal"].startswith("ratio") and record["ratio"] else ""
    spread = f", {_number(record['least'])} to {_number(record['most'])}" if record.get("least") is not None else ""
    return f"{_number(record['ours'])} {re.split(r',| for| [(]', record['unit'])[0]}{ratio}{spread}"


def _times(ratio: float) -> str:
    return f"{_number(ratio)}x"


def _goal(record: Record) -> str:
    goal = re.sub(r"ratio (.*)", r"\1x", record["goal"])
    return goal if record["met"] else f"**{goal}**"


def belongs_to_a_bench(record: Record) -> bool:
    """Return whether a bench of today gives a figure of such a name."""
    return any(record["name"].startswith(name) for name in NAMES + LONG)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def main(reports: Sequence[str]) -> None:
    """Take in reports, and write the page."""
    records = read(REPORT)
    for report in reports:
        records = merged(records, read(Path(report)))
    REPORT.write_text(json.dumps(records, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(text(records), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
