"""The entry of a reader process, which the daemon starts. See `process`."""

import sys

from lakewarden.planners.reading.process import serve

serve(sys.argv[1:])
