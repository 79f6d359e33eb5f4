"""A live Paimon writer: inserts, changes and deletes by key, by Paimon's own core, with the commits of a streaming job.

    python -m lakewarden.demo.formats.paimon.writer --path FOLDER --options FILE --record FILE

It ends `--seconds` after its first commit, on SIGTERM, or if the process that started it is gone. It always ends
between two commits. It records failed commits and tries the same rows again.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from lakewarden.demo.formats.paimon.batches import StreamCommitter
from lakewarden.demo.formats.paimon.core import Core
from lakewarden.demo.writers import orders
from lakewarden.demo.writers.arguments import add_writer_arguments
from lakewarden.demo.writers.writing import write_on
from lakewarden.demo.writers.writing_time import WritingTime


def main() -> int:
    """Write until told to stop. Returns 0 however many commits failed; the record has them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, required=True, help="the table's folder: WAREHOUSE/DATABASE.db/TABLE")
    parser.add_argument(
        "--expired-every",
        type=int,
        default=0,
        help="every so many commits a row goes into a partition that is long past",
    )
    add_writer_arguments(parser, every=1)
    asked = parser.parse_args()
    writing_time = WritingTime(asked.seconds)
    core = Core()
    options = json.loads(asked.options.read_text(encoding="utf-8"))
    committer = StreamCommitter(core, asked.path, options=options, expired_every=asked.expired_every)
    write_on(committer, orders.batches(asked.seed), asked.record, writing_time, every=asked.every)
    core.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
