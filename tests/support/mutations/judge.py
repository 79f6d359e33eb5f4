"""Runs pytest again and again for one asker, each time in a fork: what comes from elsewhere is imported once.

    python -P tests/support/mutations/judge.py

It reads JSON objects, one a line, with `tests`, `report` and `output`. It answers each of them.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

_OURS = {"lakewarden", "tests", "conftest", "__main__"}
"""Is imported anew each time: it may have changed."""


def main() -> None:
    """Answer until there are no more questions. The first is expected to import what the others will."""
    modules = Path("modules.json")
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(asked, modules)
        os.waitpid(child, 0)
        if not sys.dont_write_bytecode:
            for name in json.loads(modules.read_text()):
                with contextlib.suppress(Exception):  # the tests import it if they need it
                    importlib.import_module(name)
            sys.dont_write_bytecode = True  # by now it is there, and what is broken on purpose leaves none
        print("run", flush=True)


def _run(asked: dict[str, Any], modules: Path) -> None:
    """Run the tests in this process, and end it."""
    try:
        output = os.open(asked["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        ignored = "ignore::pytest.PytestAssertRewriteWarning"  # plugins are there already
        options = ["-p", "no:cacheprovider", "-m", "", "-W", ignored, f"--junitxml={asked['report']}"]
        pytest.main([*options, *asked["tests"]])
        modules.write_text(json.dumps([name for name in sys.modules if name.partition(".")[0] not in _OURS]))
    except BaseException:  # noqa: BLE001 - whatever it is, nothing of the parent's may go on here
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
