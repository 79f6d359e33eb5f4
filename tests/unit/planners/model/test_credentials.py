"""Text without credentials."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lakewarden.planners.model.errors import PermanentError, TemporaryError, UnknownError
from lakewarden.planners.model.printable import names_a_secret, without_credentials
from lakewarden.planners.storage.settings import Secret


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("jdbc:postgresql://user:pa55@db/x", "jdbc:postgresql://REDACTED@db/x"),
        ("fs.s3a.secret.key=wJalr+XU/tn and more", "fs.s3a.secret.key=REDACTED and more"),
        ('{"password": "hunter22"}', '{"password": "REDACTED"}'),
        ("Authorization: Bearer eyJhbGciOi.x.y", "Authorization: Bearer REDACTED"),
        ("?X-Amz-Signature=abcdef&x=1", "?X-Amz-Signature=REDACTED&x=1"),
        ("fs.azure.sas.fixed.token.box: ?sv=2022&sig=abc%2F", "fs.azure.sas.fixed.token.box: REDACTED&sig=REDACTED"),
        (
            "https://a.blob.core.windows.net/box?sp=r&sig=abc%2F",
            "https://a.blob.core.windows.net/box?sp=r&sig=REDACTED",
        ),
        ("fs.s3a.encryption.key=c2VjcmV0", "fs.s3a.encryption.key=REDACTED"),
        ("ssl.key.passphrase: hunter22", "ssl.key.passphrase: REDACTED"),
        ("AccountKey=abc+/d==;EndpointSuffix=x", "AccountKey=REDACTED;EndpointSuffix=x"),
        ("the design=flat, 3 passes: first", "the design=flat, 3 passes: first"),
        ("key AKIAIOSFODNN7EXAMPLE was refused", "key REDACTED was refused"),
        ("the table s3://bucket/a/b has 3 files at 12:30", "the table s3://bucket/a/b has 3 files at 12:30"),
        ("tokens are counted, a password is not", "tokens are counted, a password is not"),
    ],
)
def test_what_may_be_a_credential_is_hidden_and_other_text_stays(text: str, shown: str) -> None:
    """Addresses, names of secrets with a value, headers and keys."""
    assert without_credentials(text) == shown


@pytest.mark.parametrize(
    "key",
    [
        "fs.s3a.encryption.key",
        "fs.s3a.server-side-encryption.key",
        "fs.azure.account.key.a.dfs.core.windows.net",
        "fs.azure.sas.box.account.blob.core.windows.net",
        "fs.azure.sas.fixed.token",
        "adls.sas-token.account",
        "adls.connection-string.account",
        "s3.sse.key",
        "s3.secret-access-key",
        "aws_sse_customer_key_base64",
        "gcs.decryption-key",
        "hoodie.datasource.hive_sync.pass",
        "jdbc.pwd",
        "javax.jdo.option.ConnectionPassword",
        "ssl.key.passphrase",
        "header.Authorization",
        "header.X-Api-Key",
        "header.Cookie",
        "spark.kafka.sasl.jaas.config",
        "fs.gs.auth.service.account.private.key",
        "token",
    ],
)
def test_a_name_of_a_secret_is_known(key: str) -> None:
    """Of Hadoop, of the clients of the formats, of headers."""
    assert names_a_secret(key)


@pytest.mark.parametrize(
    "key",
    [
        "hoodie.datasource.write.recordkey.field",
        "fs.s3a.aws.credentials.provider",
        "catalog_key",
        "sasquatch",
        "passes",
        "compass",
        "spark.sql.shuffle.partitions",
        "fs.s3a.endpoint",
        "sort_keys",
    ],
)
def test_a_name_of_something_else_is_none_of_a_secret(key: str) -> None:
    """What a reader of a configuration needs must stay."""
    assert not names_a_secret(key)


def test_a_secret_that_was_read_is_hidden_wherever_an_error_quotes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after it was replaced, and where one is the beginning of another. A short one is part of many words."""
    for secret in ("abc-def-ghi", "it", "abc-def-ghi-jkl"):
        (tmp_path / "secret").write_text(secret)
        Secret(file=tmp_path / "secret").value()
    assert str(PermanentError("it said abc-def-ghi-jkl, abc-def-ghi!")) == "it said REDACTED, REDACTED!"
    assert str(UnknownError.unforeseen(OSError("abc-def-ghi"))) == "unexpected OSError: REDACTED"
    monkeypatch.setenv("A_SECRET", "mno-pqr")
    Secret(env="A_SECRET").value()
    assert TemporaryError("mno-pqr").args == ("REDACTED",)


def test_a_long_line_costs_little_time() -> None:
    """No pattern looks at a character again and again."""
    for text in ("secret" * 3000, "a." * 8000, "://" * 5000, "password=" * 2000, "bearer " * 2500, "x" * 16_000):
        began = time.process_time()
        without_credentials(text)
        assert time.process_time() - began < 60
