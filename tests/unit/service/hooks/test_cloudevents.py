"""CloudEvents of catalogs: which tables they are about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.hooks import MalformedHookError, Named
from lakewarden.service.hooks import hints_of

STRUCTURED = {"content-type": "application/cloudevents+json; charset=UTF-8"}
LAKEKEEPER: Mapping[str, Any] = {
    "specversion": "1.0",
    "id": "0198c0de-0000-7000-8000-000000000001",
    "source": "uri:iceberg-catalog-service:catalog",
    "type": "updateTable",
    "tabular-type": "table",
    "tabular-id": "0198c0de-0000-7000-8000-000000000002",
    "warehouse-id": "0198c0de-0000-7000-8000-000000000003",
    "name": "orders",
    "namespace": "sales",
    "num-events": 1,
    "sequence-number": 0,
    "data": {"identifier": {"namespace": ["sales"], "name": "orders"}, "requirements": [], "updates": []},
}
POLARIS: Mapping[str, Any] = {
    "event_type": "AFTER_UPDATE_TABLE",
    "event_id": "0198c0de-0000-7000-8000-000000000004",
    "timestamp": "2026-05-01T12:00:00Z",
    "table_name": "orders",
    "namespace": ["sales"],
    "catalog_name": "lake",
    "realm_id": "POLARIS",
}
WRAPPED = {"specversion": "1.0", "id": "1", "source": "kafka", "type": "dev.knative.kafka.event"}


def _names(event: Mapping[str, Any], headers: Mapping[str, str] = STRUCTURED) -> list[str]:
    hints = hints_of(headers, "lake", json.dumps(event).encode())
    assert all(isinstance(hint, Named) and hint.catalog == "lake" for hint in hints)
    return [hint.identifier for hint in hints if isinstance(hint, Named)]


@pytest.mark.parametrize("kind", ["updateTable", "createTable", "dropTable", "registerTable"])
def test_lakekeepers_events_name_their_table_in_their_extensions(kind: str) -> None:
    """The data of a dropped table is empty; the extensions are always there."""
    assert _names({**LAKEKEEPER, "type": kind, "data": None}) == ["sales.orders"]


@pytest.mark.parametrize("namespace", ["sales.eu", "sales\x1feu"])
def test_the_levels_of_a_namespace_are_joined_in_either_way(namespace: str) -> None:
    """Lakekeeper joins them by dots or, for updates and renames, as in a URL."""
    assert _names({**LAKEKEEPER, "namespace": namespace, "data": None}) == ["sales.eu.orders"]


def test_a_renamed_table_is_looked_at_under_both_names() -> None:
    """Whichever of the two is registered."""
    renamed = {
        "source": {"namespace": ["sales"], "name": "orders"},
        "destination": {"namespace": ["archive", "sales"], "name": "orders_2025"},
    }

    names = _names({**LAKEKEEPER, "type": "renameTable", "data": renamed})

    assert names == ["sales.orders", "archive.sales.orders_2025"]


def test_binary_mode_says_the_same_in_headers() -> None:
    """Attributes are headers, percent-encoded; the body is the data alone."""
    attributes = {name: str(value) for name, value in LAKEKEEPER.items() if name != "data"}
    headers = {f"ce-{name}": value for name, value in {**attributes, "name": "net%20sales"}.items()}

    assert hints_of({**headers, "content-type": "application/json"}, None, b"") == (
        Named(identifier="sales.net sales"),
    )


def test_polaris_events_are_known_by_their_own_type_whatever_carries_them() -> None:
    """A bridge from Kafka gives every event the same type."""
    assert _names({**WRAPPED, "data": POLARIS}) == ["sales.orders"]
    assert _names(POLARIS, {f"ce-{name}": value for name, value in WRAPPED.items()}) == ["sales.orders"]
    assert _names(
        {**WRAPPED, "type": "org.apache.polaris.AFTER_DROP_TABLE", "data": {"table_identifier": ["a", "b", "c"]}}
    ) == ["a.b.c"]


def test_a_transaction_is_about_every_table_it_changes() -> None:
    """The body of a multi-table commit, as the REST specification has it."""
    changes = [{"identifier": {"namespace": ["sales"], "name": name}} for name in ("orders", "lines", "orders")]
    data = {"event_type": "AFTER_COMMIT_TRANSACTION", "table-changes": changes}

    assert _names({**WRAPPED, "data": data}) == ["sales.orders", "sales.lines"]


@pytest.mark.parametrize(
    "event",
    [
        {**LAKEKEEPER, "type": "createView"},
        {**WRAPPED, "data": {**POLARIS, "event_type": "AFTER_LOAD_TABLE"}},
        {**WRAPPED, "data": {"event_type": "AFTER_COMMIT_TRANSACTION", "catalog_name": "lake"}},
        {**WRAPPED, "data": None},
        {**WRAPPED, "data": {"event_type": "AFTER_UPDATE_TABLE", "table_identifier": [[], 3], "namespace": 4}},
    ],
)
def test_an_event_that_names_no_changed_table_is_about_none(event: Mapping[str, Any]) -> None:
    """A topic holds events about views, roles and reads, too."""
    assert _names(event) == []


@pytest.mark.parametrize("missing", ["specversion", "id", "source", "type"])
def test_an_event_without_what_every_event_has_is_malformed(missing: str) -> None:
    """The sentence names what is missing."""
    event = {name: value for name, value in LAKEKEEPER.items() if name != missing}

    with pytest.raises(MalformedHookError, match=f"has no {missing}"):
        hints_of(STRUCTURED, None, json.dumps(event).encode())


@pytest.mark.parametrize(
    ("headers", "body", "told"),
    [
        ({"content-type": "application/json"}, b"{}", "no CloudEvent"),
        ({"content-type": "application/cloudevents-batch+json"}, b"[]", "one event per request"),
        ({"ce-type": "updateTable"}, b"{", "not JSON"),
        (STRUCTURED, b"[]", "no JSON object"),
    ],
)
def test_what_is_no_event_is_told_so(headers: Mapping[str, str], body: bytes, told: str) -> None:
    """Whoever sets a bridge up reads what is wrong with it."""
    with pytest.raises(MalformedHookError, match=told):
        hints_of(headers, None, body)


_ANYTHING = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["namespace", "name", "identifier", "table-changes", "source"]), inner, max_size=3
        )
    ),
    max_leaves=10,
)


@given(data=_ANYTHING, name=_ANYTHING, namespace=_ANYTHING)
def test_any_data_of_an_event_names_tables_or_none(data: object, name: object, namespace: object) -> None:
    """What a stranger posts does not come through as an error of ours."""
    event = {**WRAPPED, "type": "updateTable", "name": name, "namespace": namespace, "data": data}

    hints_of(STRUCTURED, None, json.dumps(event).encode())
