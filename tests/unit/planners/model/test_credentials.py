"""Text without credentials."""

from __future__ import annotations

import time

import pytest

from lakewarden.planners.model.credentials import without_credentials


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("jdbc:postgresql://user:pa55@db/x", "jdbc:postgresql://REDACTED@db/x"),
        ("fs.s3a.secret.key=wJalr+XU/tn and more", "fs.s3a.secret.key=REDACTED and more"),
        ('{"password": "hunter22"}', '{"password": "REDACTED"}'),
        ("Authorization: Bearer eyJhbGciOi.x.y", "Authorization: Bearer REDACTED"),
        ("?X-Amz-Signature=abcdef&x=1", "?X-Amz-Signature=REDACTED&x=1"),
        ("key AKIAIOSFODNN7EXAMPLE was refused", "key REDACTED was refused"),
        ("the table s3://bucket/a/b has 3 files at 12:30", "the table s3://bucket/a/b has 3 files at 12:30"),
        ("tokens are counted, a password is not", "tokens are counted, a password is not"),
    ],
)
def test_what_may_be_a_credential_is_hidden_and_other_text_stays(text: str, shown: str) -> None:
    """Addresses, names of secrets with a value, headers and keys."""
    assert without_credentials(text) == shown


def test_a_known_secret_is_hidden_wherever_it_stands() -> None:
    """A short one is part of many words."""
    assert without_credentials("it said abc-def-ghi!", secrets=["abc-def-ghi", "it"]) == "it said REDACTED!"


def test_a_long_line_costs_little_time() -> None:
    """No pattern looks at a character again and again."""
    for text in ("secret" * 3000, "a." * 8000, "://" * 5000, "password=" * 2000, "bearer " * 2500, "x" * 16_000):
        began = time.process_time()
        without_credentials(text)
        assert time.process_time() - began < 60
