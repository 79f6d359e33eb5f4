"""Settings of stores. One entry tells both readers how to reach a bucket, and contains no secret."""

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
from lakewarden.planners.storage.storages import open_client

STORES: TypeAdapter[tuple[StoreSettings, ...]] = TypeAdapter(tuple[StoreSetting, ...])
NOWHERE = "http://127.0.0.1:1"


def _refused(**setting: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        STORES.validate_python([setting])
    return str([found["msg"] for found in refused.value.errors()])


def test_the_prefix_says_what_kind_of_store_it_is() -> None:
    """Each kind has settings of its own. The spellings of one store are equal."""
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
    """This holds in any order of the entries. A bucket does not match a prefix of its name."""
    stores = [S3Store(prefix=prefix) for prefix in prefixes]

    for location, prefix in {"s3://lake/t": "s3://lake", "s3://lake-2/t": "s3://lake-2", "s3://x/t": "s3://"}.items():
        found = setting_of(location, stores)
        assert found is not None
        assert found.prefix == prefix


def test_a_bucket_without_an_entry_is_reached_by_what_the_environment_says() -> None:
    """Its jars are known by its kind. Local tables need no setting."""
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
    """The error says which settings belong together."""
    assert message in _refused(prefix="s3://lake", **setting)


def test_a_secret_comes_from_the_environment_or_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mounted file may end with a line break. If the secret is missing or empty, the error names its place."""
    (tmp_path / "secret").write_text("sesame\n")
    monkeypatch.setenv("SESAME", "sesame")
    monkeypatch.delenv("NOTHING", raising=False)

    assert Secret(file=tmp_path / "secret").value() == Secret(env="SESAME").value() == "sesame"
    with pytest.raises(PermanentError, match="environment variable NOTHING"):
        Secret(env="NOTHING").value()
    with pytest.raises(PermanentError, match="no-such-file"):
        Secret(file=tmp_path / "no-such-file").value()


def test_both_readers_are_told_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endpoint, region, style and keys are for this bucket alone. What is sent to a worker contains no secret."""
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

    client, hadoop = store.client_arguments("lake"), store.hadoop_properties()

    assert (client["bucket"], client["endpoint"], client["region"]) == ("lake", "http://store:9000", "here")
    assert client["client_options"]["allow_http"]
    assert not client["virtual_hosted_style_request"]
    keys = client["credential_provider"]()
    assert (keys["access_key_id"], keys["secret_access_key"], keys["token"]) == ("the-id", "the-key", None)
    assert {key: hadoop[f"fs.s3a.bucket.lake.{key}"] for key in ("endpoint", "endpoint.region", "access.key")} == {
        "endpoint": "http://store:9000", "endpoint.region": "here", "access.key": "the-id",
    }  # fmt: skip
    assert hadoop["fs.s3a.bucket.lake.secret.key"] == "the-key"
    assert hadoop["fs.s3a.bucket.lake.path.style.access"] == "true"
    assert hadoop["fs.s3a.bucket.lake.connection.ssl.enabled"] == "false"
    assert "the-key" not in f"{store!r} {store.model_dump_json()}"
    assert STORES.validate_json(f"[{store.model_dump_json()}]") == (store,)


def test_azure_and_google_are_told_of_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names are those in the documentation of the drivers and connectors."""
    monkeypatch.setenv("KEY", "the-key")
    account = "account.dfs.core.windows.net"
    azure = AzureStore(prefix=f"abfss://c@{account}", account_key=Secret(env="KEY"))
    google = GcsStore(prefix="gs://lake", key_file=Path("/key.json"))

    found = azure.client_arguments(azure.host)
    assert (found["container_name"], found["account_name"], found["account_key"]) == ("c", "account", "the-key")
    assert "endpoint" not in found
    elsewhere = AzureStore(prefix="abfss://").client_arguments("c@account.dfs.core.chinacloudapi.cn")
    assert elsewhere["endpoint"] == "https://account.blob.core.chinacloudapi.cn"
    assert azure.hadoop_properties() == {f"fs.azure.account.key.{account}": "the-key"}
    found = google.client_arguments("lake")
    assert (found["bucket"], found["service_account"]) == ("lake", "/key.json")
    assert google.hadoop_properties()["fs.gs.auth.service.account.json.keyfile"] == "/key.json"


def test_a_missing_secret_is_the_trouble_of_its_own_tables_and_ends_when_it_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The storages are created without an error, other buckets continue, and no restart is needed."""
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


def test_a_client_that_is_not_installed_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each store needs an extra."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for location, extra in {"gs://lake/t": "gcs", "s3://lake/t": "s3", "abfss://c@a/t": "azure"}.items():
        with pytest.raises(PermanentError, match=rf"obstore: pip install '\.\[{extra}\]'"):
            Storages().of(location).stamp(location)


@pytest.mark.parametrize(
    ("given", "endpoint", "in_host_name"),
    [
        ({}, None, True),
        ({"path_style": True}, None, False),
        ({"prefix": "s3://a.lake"}, None, False),
        ({"endpoint": "https://store:9000"}, "https://lake.store:9000", True),
        ({"endpoint": "https://store:9000/", "path_style": True}, "https://store:9000", False),
        ({"endpoint": "http://10.0.0.1:9000"}, "http://10.0.0.1:9000", False),
    ],
)
def test_a_bucket_is_named_in_the_host_name_where_it_can_be(
    given: dict[str, Any], endpoint: str | None, in_host_name: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is not done below a number, nor if the name's dots would need a certificate that does not exist."""
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    store = S3Store(**{"prefix": "s3://lake", **given})
    found = store.client_arguments(store.host)

    assert (found.get("endpoint"), found["virtual_hosted_style_request"]) == (endpoint, in_host_name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://elsewhere")
    assert found["client_options"].get("allow_http", False) == (endpoint or "").startswith("http:")
    asked = store.client_arguments(store.host)["endpoint"]
    assert asked == (endpoint or ("http://lake.elsewhere" if in_host_name else "http://elsewhere"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nonsense": "1"}, "nonsense"),
        ({"client_options": {"nonsense": "1"}}, "nonsense"),
        ({"client_options": {"timeout": 5}}, "not an instance"),
        ({"aws_secret_access_key": "sesame"}, "aws_secret_access_key: use the settings"),
        ({"endpoint": "http://elsewhere"}, "endpoint: use the settings"),
        ({"retry_config": {"max_retries": 100}}, "retry_config: use the settings"),
    ],
)
def test_options_that_the_client_does_not_know_are_refused_at_once(options: dict[str, Any], message: str) -> None:
    """Options that would contradict the settings are refused too, since Spark obeys the settings. No value is
    repeated.
    """
    assert message in _refused(prefix="s3://lake", options=options)
    assert "sesame" not in _refused(prefix="s3://lake", options=options)


def test_options_of_the_client_are_merged_into_ours() -> None:
    """A custom certificate leaves the time limits as they are."""
    options = {"request_payer": "true", "client_options": {"user_agent": "lake", "allow_http": "true"}}
    (store,) = STORES.validate_python([{"prefix": "s3://lake", "timeout": "8s", "options": options}])
    assert isinstance(store, S3Store)
    found = open_client(store, "lake")

    assert found.config["request_payer"] == "true"
    assert found.client_options["user_agent"] == "lake"
    assert "8" in str(found.client_options["timeout"])
