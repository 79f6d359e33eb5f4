"""`./dev flink [--format iceberg|paimon|directory] [--report FILE]`: real Flink jobs beside Lakewarden.

They are stopped with a savepoint, and restored. It takes about five minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from live.flink.directory import scenario as directory
from live.flink.found import Found
from live.flink.iceberg import scenario as iceberg
from live.flink.paimon import scenario as paimon
from live.flink.process import UnfinishedError

SCENARIOS: Mapping[str, Callable[[Path], Found]] = {
    "iceberg": iceberg.run,
    "paimon": paimon.run,
    "directory": directory.run,
}
"""The scenario of each format. It runs in a folder of its own."""


def main() -> int:
    """Run the scenario of a format. Returns 0 only if it has shown what it promises."""
    parser = argparse.ArgumentParser(prog="flink", description=__doc__)
    parser.add_argument("--format", choices=tuple(SCENARIOS), default="iceberg", help="the format (default: iceberg)")
    parser.add_argument("--report", type=Path, help="write what was found to this file, as JSON")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakewarden-flink-") as folder:
        try:
            found = SCENARIOS[asked.format](Path(folder))
        except UnfinishedError as unfinished:
            print(unfinished, file=sys.stderr)
            return 1
    text = json.dumps(found.report, indent=2)
    print(text)
    if asked.report is not None:
        asked.report.write_text(text + "\n", encoding="utf-8")
    print("no row is lost or there twice" if found.proved else "NOT proved")
    return 0 if found.proved else 1


if __name__ == "__main__":
    sys.exit(main())
