"""Settings of stores: one entry tells both readers how to reach a bucket, and no secret stands in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.settings import (
    AzureStore,
    GcsStore,
    HdfsStore,
    S3Store,
    Secret,
    StoreSetting,
    StoreSettings,
    setting_of,
)

STORES: TypeAdapter[tuple[StoreSettings, ...]] = TypeAdapter(tuple[StoreSetting, ...])
NOWHERE = "http://127.0.0.1:1"


def _refused(**setting: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        STORES.validate_python([setting])
    return str([found["msg"] for found in refused.value.errors()])


def test_the_prefix_says_what_kind_of_store_it_is() -> None:
    """Each kind has settings of its own; the spellings of one store are one."""
    prefixes = ["s3a://lake/", "s3://", "gs://lake", "abfs://c@account.dfs.core.windows.net", "hdfs://name:8020"]
    stores = STORES.validate_python([{"prefix": prefix} for prefix in prefixes])

    assert [type(store) for store in stores] == [S3Store, S3Store, GcsStore, AzureStore, HdfsStore]
    assert [store.prefix for store in stores][:4] == [
        "s3://lake", "s3://", "gs://lake", "abfss://c@account.dfs.core.windows.net",
    ]  # fmt: skip
    assert "begins with s3://" in _refused(prefix="ftp://host")
    assert "end the prefix after it" in _refused(prefix="s3://lake/tables")


@given(st.permutations(["s3://", "s3://lake", "s3://lake-2"]))
def test_the_longest_prefix_holds(prefixes: list[str]) -> None:
    """In whatever order they stand; a bucket whose name begins like another's is another."""
    stores = [S3Store(prefix=prefix) for prefix in prefixes]

    for location, prefix in {"s3://lake/t": "s3://lake", "s3://lake-2/t": "s3://lake-2", "s3://x/t": "s3://"}.items():
        found = setting_of(location, stores)
        assert found is not None
        assert found.prefix == prefix


def test_a_bucket_without_an_entry_is_reached_by_what_the_environment_says() -> None:
    """So are the jars it needs: its kind is known. Local tables need no setting."""
    assert setting_of("s3://lake/t", []) == S3Store(prefix="s3://")
    assert setting_of("/lake/t", [S3Store(prefix="s3://")]) is None


def test_a_secret_that_is_written_down_is_refused_and_not_repeated() -> None:
    """The message goes to a terminal and to logs."""
    message = _refused(prefix="s3://lake", access_key="AKIA123", secret_key={"env": "X"})

    assert "{env: NAME}" in message
    assert "AKIA123" not in message


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"access_key": {"env": "A"}}, "belong together"),
        ({"access_key": {"env": "A"}, "secret_key": {"env": "B"}, "anonymous": True}, "contradict"),
        ({"access_key": {"env": "A", "file": "/b"}, "secret_key": {"env": "B"}}, "one of the two"),
        ({"access_key": {}, "secret_key": {"env": "B"}}, "one of the two"),
    ],
)
def test_contradicting_credentials_are_refused(setting: dict[str, Any], message: str) -> None:
    """Whoever wrote them learns what belongs together."""
    assert message in _refused(prefix="s3://lake", **setting)


def test_a_secret_comes_from_the_environment_or_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mounted file may end with a line break; what is missing or empty is told by its place."""
    (tmp_path / "secret").write_text("sesame\n")
    monkeypatch.setenv("SESAME", "sesame")
    monkeypatch.delenv("NOTHING", raising=False)

    assert Secret(file=tmp_path / "secret").value() == Secret(env="SESAME").value() == "sesame"
    with pytest.raises(PermanentError, match="environment variable NOTHING"):
        Secret(env="NOTHING").value()
    with pytest.raises(PermanentError, match="no-such-file"):
        Secret(file=tmp_path / "no-such-file").value()


def test_both_readers_are_told_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endpoint, region, style and keys, for this bucket alone; what is sent to a worker holds no secret."""
    monkeypatch.setenv("ID", "the-id")
    monkeypatch.setenv("KEY", "the-key")
    store = S3Store(
        prefix="s3://lake",
        endpoint="http://store:9000",
        region="here",
        path_style=True,
        access_key=Secret(env="ID"),
        secret_key=Secret(env="KEY"),
    )

    driver, hadoop = store.driver_options(), store.hadoop_properties()

    assert (driver["endpoint_url"], driver["key"], driver["secret"]) == ("http://store:9000", "the-id", "the-key")
    assert driver["client_kwargs"] == {"region_name": "here"}
    assert driver["config_kwargs"]["s3"] == {"addressing_style": "path"}
    assert {key: hadoop[f"fs.s3a.bucket.lake.{key}"] for key in ("endpoint", "endpoint.region", "access.key")} == {
        "endpoint": "http://store:9000", "endpoint.region": "here", "access.key": "the-id",
    }  # fmt: skip
    assert hadoop["fs.s3a.bucket.lake.secret.key"] == "the-key"
    assert hadoop["fs.s3a.bucket.lake.path.style.access"] == "true"
    assert hadoop["fs.s3a.bucket.lake.connection.ssl.enabled"] == "false"
    assert "the-key" not in f"{store!r} {store.model_dump_json()}"
    assert STORES.validate_json(f"[{store.model_dump_json()}]") == (store,)


def test_azure_and_google_are_told_of_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the names that their drivers and connectors document."""
    monkeypatch.setenv("KEY", "the-key")
    account = "account.dfs.core.windows.net"
    azure = AzureStore(prefix=f"abfss://c@{account}", account_key=Secret(env="KEY"))
    google = GcsStore(prefix="gs://lake", key_file=Path("/key.json"))

    assert azure.driver_options() == {"account_name": "account", "account_key": "the-key"}
    assert azure.hadoop_properties() == {f"fs.azure.account.key.{account}": "the-key"}
    assert google.driver_options() == {"token": "/key.json"}
    assert google.hadoop_properties()["fs.gs.auth.service.account.json.keyfile"] == "/key.json"


def test_a_missing_secret_is_the_trouble_of_its_own_tables_and_ends_when_it_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Composing the storages raises nothing, other buckets go on, and no restart is needed."""
    monkeypatch.delenv("LATE", raising=False)
    late = Secret(env="LATE")
    storages = Storages([S3Store(prefix="s3://lake", endpoint=NOWHERE, access_key=late, secret_key=late)])

    with pytest.raises(PermanentError, match="environment variable LATE"):
        storages.of("s3://lake/t").stamp("s3://lake/t")
    with pytest.raises(FileNotFoundError):
        storages.of("memory://other/t").stamp("memory://other/t")
    monkeypatch.setenv("LATE", "here")
    with pytest.raises(TemporaryError, match="s3://lake/t cannot be read"):
        storages.of("s3://lake/t").stamp("s3://lake/t")


def test_a_driver_that_is_not_installed_is_named_with_what_brings_it() -> None:
    """Stores other than S3 need an extra."""
    with pytest.raises(PermanentError, match=r"gcsfs: install lakewarden\[gcs\]"):
        Storages().of("gs://lake/t").stamp("gs://lake/t")
