"""The demo reads its Paimon table in a JVM that ends with the read."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.demo.formats.paimon.demo import DEMO

pytestmark = pytest.mark.spark


def test_an_error_of_paimon_is_shown_after_its_jvm_has_ended(tmp_path: Path) -> None:
    """`./dev live paimon` says why a table cannot be read. It does not end by the error."""
    with pytest.raises(RuntimeError, match="Exception") as error:
        DEMO.read(tmp_path)
    assert str(tmp_path) in str(error.value)
