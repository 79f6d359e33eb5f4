"""The page of the figures, from a report: `python -m docs.benchmarks [FILE]` writes `benchmarks.md` anew.

FILE is what `./dev bench --report FILE` wrote, without `--brief`. Its figures replace those of the same name in
`benchmarks.json`, and the page is written from that.
"""

from __future__ import annotations

import json
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

`./dev bench` measures these figures, and `./dev bench NAME` some of them. Each figure was measured once, on a shared
machine. Read it as an order of magnitude, and measure on your own machine. A figure that was carried over stood in the
README before; its revision is the one whose README first had it.

    ./dev bench --report report.json             # some minutes for all
    python -m docs.benchmarks report.json        # puts the figures on this page

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
        f"| {record.get('what', '')} | `{record['name']}` | {_number(record['ours'])} | {record['unit']} "
        f"| {_number(record['baseline'])} | {_number(record['ratio'])} | {record['goal']} "
        f"| {'yes' if record['met'] else '**no**'} | {record['measured']}, `{record['revision']}` | {_remark(record)} |"
        for record in records
    ]
    heading = "| what | figure | ours | unit | baseline | ratio | goal | met | measured | remark |"
    machines = sorted({record["machine"] for record in records})
    where = ["", "Measured on: " + "; ".join(machines) + ".", ""]
    return _HEAD + "\n".join([heading, "|---|---|---|---|---|---|---|---|---|---|", *rows, *where])


def belongs_to_a_bench(record: Record) -> bool:
    """Return whether a bench of today gives a figure of such a name."""
    return any(record["name"].startswith(name) for name in NAMES + LONG)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _remark(record: Record) -> str:
    carried = "carried over by hand" if record.get("carried_over") else ""
    return "; ".join(filter(None, [record.get("remark", ""), carried]))


def main(reports: Sequence[str]) -> None:
    """Take in reports, and write the page."""
    records = read(REPORT)
    for report in reports:
        records = merged(records, read(Path(report)))
    REPORT.write_text(json.dumps(records, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(text(records), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
