"""Requests to a REST catalog are signed with Amazon's signature."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import TypeAdapter
from pyiceberg.catalog.rest import RestCatalog

from lakewarden.planners.formats.iceberg.catalogs.rest import RestServer
from lakewarden.planners.formats.iceberg.catalogs.settings import Catalog
from lakewarden.planners.model.errors import PermanentError
from tests.support.catalogs.iceberg_rest import IcebergRest, iceberg_rest
from tests.support.catalogs.sigv4 import verifier

SIGNED = {"service": "glue", "region": "eu-central-1"}
KEYS = {"access_key": {"env": "GLUE_KEY"}, "secret_key": {"env": "GLUE_SECRET"}}


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[IcebergRest]:
    """Start a server with a table in a nested namespace. It then requires signatures."""
    with iceberg_rest(tmp_path) as server:
        server.catalog.create_namespace(("sales", "eu"))
        RestCatalog("any", uri=server.uri).create_table(("sales", "eu", "orders"), pa.schema([("id", pa.int64())]))
        server.verify = verifier("the-key", "the-secret-key", **SIGNED)
        yield server


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUE_KEY", "the-key")
    monkeypatch.setenv("GLUE_SECRET", "the-secret-key")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def _opened(rest: IcebergRest, **sigv4: Any) -> RestServer:
    settings = TypeAdapter[Any](Catalog).validate_python(
        {"type": "rest", "uri": rest.uri, "timeout": "5s", "sigv4": {**SIGNED, **sigv4}}
    )
    return RestServer("lake", settings, {})


def test_every_request_is_signed(rest: IcebergRest) -> None:
    """These are the configuration, the listings, a table in a nested namespace, and a table that has not changed."""
    server = _opened(rest, **KEYS)

    assert server.metadata_file("sales.eu.orders") == server.metadata_file("sales.eu.orders")
    assert list(server.tables().tables) == ["sales.eu.orders"]
    assert {status for _, status in rest.seen[-4:]} <= {200, 304}


def test_the_keys_may_be_those_of_the_environment(rest: IcebergRest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys may come from variables, a web identity, or the profile of the instance."""
    with pytest.raises(
        PermanentError, match=r"there are no keys of Amazon in the environment, and none in catalogs\.lake"
    ):
        _opened(rest)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret-key")

    assert _opened(rest).metadata_file("sales.eu.orders")


@pytest.mark.parametrize(
    "wrong", [{"region": "eu-north-1"}, {"service": "s3tables"}, {"secret_key": {"env": "GLUE_KEY"}}]
)
def test_a_wrong_signature_is_refused_by_name(rest: IcebergRest, wrong: dict[str, Any]) -> None:
    """The message names the setting, and no key."""
    with pytest.raises(PermanentError, match=r"check catalogs\.lake\.sigv4") as error:
        _opened(rest, **{**KEYS, **wrong})
    assert "the-secret-key" not in str(error.value)


def test_a_server_that_wants_signatures_is_not_asked_without(
    rest: IcebergRest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Glue says so in its configuration. pyiceberg would then send requests without time-outs of Lakewarden."""
    rest.verify = None
    settings = TypeAdapter[Any](Catalog).validate_python({"type": "rest", "uri": rest.uri})
    settings = settings.model_copy(update={"properties": {"rest.sigv4-enabled": "true"}})
    with pytest.raises(PermanentError, match=r"wants signed requests: say service and region as catalogs\.lake\.sigv4"):
        RestServer("lake", settings, {})


def test_what_is_missing_is_named(rest: IcebergRest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library that signs comes with an extra."""
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "botocore" else found(name))
    with pytest.raises(PermanentError, match=r"pip install '\.\[sigv4\]'"):
        _opened(rest, **KEYS)
