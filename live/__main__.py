"""`./dev live hudi [--table-type mor|cow] [--commits 30] [--writer upsert|inline|streaming] [--report FILE]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lakewarden.executors.demo.hudi_options import TableType
from live.plot import play
from live.policies import WriterKind
from live.script import Script


def main() -> int:
    """Play the whole suite; returns 0 only if all that it promises was seen."""
    parser = argparse.ArgumentParser(prog="live", description=__doc__)
    parser.add_argument("format", choices=["hudi"], help="the format of the table")
    parser.add_argument("--table-type", type=TableType, default=TableType.MOR, help="mor (the default) or cow")
    parser.add_argument("--commits", type=int, default=30, help="the least commits of the writer (default: 30)")
    parser.add_argument(
        "--writer",
        type=WriterKind,
        default=WriterKind.UPSERT,
        help="upsert (the default), inline (it schedules, and leaves execution to us) or streaming",
    )
    parser.add_argument("--services", nargs="+", metavar="SERVICE", help="these alone, for a shorter look")
    parser.add_argument("--minutes", type=float, default=12, help="when to give up (default: 12)")
    parser.add_argument("--report", type=Path, help="write the figures to this file, as JSON")
    asked = parser.parse_args()
    script = Script(
        kind=asked.table_type,
        writer=asked.writer,
        commits=asked.commits,
        minutes=asked.minutes,
        only=frozenset(asked.services) if asked.services else None,
    )
    return play(script, asked.report)


if __name__ == "__main__":
    sys.exit(main())
