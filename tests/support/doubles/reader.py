"""A process that reads tables, also tables of the fake format."""

from __future__ import annotations

import sys

from lakewarden.planners.reading.process import serve
from tests.support.doubles.formats import TEST_FORMATS

if __name__ == "__main__":
    serve(sys.argv[1:], formats=TEST_FORMATS)
