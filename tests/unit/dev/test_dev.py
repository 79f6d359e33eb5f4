"""`./dev test` runs two parts side by side, and ends as they do."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

_DEV = Path(__file__).parents[3] / "dev"


@pytest.mark.parametrize(("services", "others", "code"), [(0, 0, 0), (3, 0, 3), (0, 4, 4)])
def test_the_exit_code_is_that_of_the_part_that_failed(tmp_path: Path, services: int, others: int, code: int) -> None:
    """It is 0 when both parts passed, and only then."""
    every_test = re.search(r"^every_test\(\) \{.*?^\}$", _DEV.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert every_test is not None
    (tmp_path / ".dev").mkdir()
    stub = tmp_path / "pytest"
    stub.write_text(f'#!/bin/sh\necho "ran $*"\ncase "$*" in *integration*) exit {services} ;; esac\nexit {others}\n')
    stub.chmod(0o755)
    ended = subprocess.run(
        ["sh", "-euc", f"{every_test.group()}\nevery_test"],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == code, ended.stderr
    assert ended.stdout.splitlines() == ["ran tests/integration", "ran tests/unit tests/contract tests/mutations"]
