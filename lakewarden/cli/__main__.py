"""`python -m lakewarden.cli` is `lakewarden`."""

import sys

from lakewarden.cli import main

if __name__ == "__main__":
    sys.exit(main())
