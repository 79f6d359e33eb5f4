"""A live writer of a plain directory: small Parquet files in partitions that move on with time, and some late ones.

    python -m lakewarden.demo.formats.directory.writer --path FOLDER --options FILE --record FILE

It ends `--seconds` after its first commit, on SIGTERM, or if the process that started it is gone. It always ends
between two commits. It records failed commits and tries the same rows again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lakewarden.demo.formats.directory.batches import FileCommitter, arrivals
from lakewarden.demo.writers.arguments import add_writer_arguments
from lakewarden.demo.writers.writing import write_on
from lakewarden.demo.writers.writing_time import WritingTime


def main() -> int:
    """Write until told to stop. Returns 0 however many commits failed; the record has them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, required=True, help="the folder of the directory")
    add_writer_arguments(parser, every=1, needs_options=False)
    asked = parser.parse_args()
    writing_time = WritingTime(asked.seconds)
    write_on(FileCommitter(asked.path), arrivals(asked.seed), asked.record, writing_time, every=asked.every)
    return 0


if __name__ == "__main__":
    sys.exit(main())
