"""`lakewarden` in a pod of the tests: with the fake format, and with workers without a JVM."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.doubles.formats import TEST_FORMATS


def main() -> None:
    """Run one command."""
    from lakewarden.planners import registry  # noqa: PLC0415

    vars(registry)["FORMATS"] = TEST_FORMATS  # before any command reads it
    if sys.argv[1:3] == ["serve", "--config"]:
        from lakewarden.service.process.last_resort import leave  # noqa: PLC0415
        from lakewarden.service.wiring.serving import serve  # noqa: PLC0415
        from tests.support.doubles import READER  # noqa: PLC0415
        from tests.support.pool.light_worker import COMMAND  # noqa: PLC0415

        leave(serve(Path(sys.argv[3]), formats=TEST_FORMATS, worker=COMMAND, reader=READER))
    from lakewarden.cli import main as cli  # noqa: PLC0415

    sys.exit(cli())


if __name__ == "__main__":
    main()
