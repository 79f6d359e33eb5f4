"""The hash by which Hudi's implicit lock providers name the lock of a table."""

from __future__ import annotations

import pytest

from lakewarden.service.config.layers.templates import path_hash, xxh64


@pytest.mark.parametrize(
    ("content", "hashed"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_the_published_values_of_xxh64_are_met(content: bytes, hashed: int) -> None:
    """They cover whole stripes, and each kind of rest. The integration tests compare it with Hudi itself."""
    assert xxh64(content, 0) == hashed


def test_both_spellings_of_s3_have_one_hash() -> None:
    """Hudi takes `s3a` for `s3`. Any other spelling of a path is another lock."""
    assert path_hash("s3a://lake/orders") == path_hash("s3://lake/orders")
    assert path_hash("/lake/orders") != path_hash("file:/lake/orders")
    assert len(path_hash("/lake/orders")) == 16
