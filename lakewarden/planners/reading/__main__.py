"""The process that the daemon starts to read tables: see `process`."""

import sys

from lakewarden.planners.reading.process import serve

serve(sys.argv[1:])
