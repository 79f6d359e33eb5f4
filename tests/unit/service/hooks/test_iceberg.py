"""What an Iceberg catalog is told of commits: which table it is about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.catalogs.reports import Address, HookResource, address_of, hints_of
from lakewarden.planners.hooks import At, MalformedHookError, Named

ORDERS = Address(identifier="sales.orders", kind=HookResource.METRICS)
NOTIFIED = Address(identifier="sales.orders", kind=HookResource.NOTIFICATIONS)
REPORTS = Path(__file__).parents[3] / "fixtures" / "iceberg" / "reports"


@pytest.mark.parametrize(
    ("path", "identifier"),
    [
        ("v1/namespaces/sales/tables/orders/metrics", "sales.orders"),
        ("v1/warehouse/namespaces/sales/tables/orders/metrics", "sales.orders"),
        ("api/catalog/v1/lake/namespaces/sales/tables/orders/metrics", "sales.orders"),
        ("v1/a/b/namespaces/sales/tables/orders/metrics", "sales.orders"),
        ("v1/namespaces/sales%1Feu/tables/orders/metrics", "sales.eu.orders"),
        ("v1/namespaces/sales%1feu%1Fnorth/tables/orders/metrics", "sales.eu.north.orders"),
        ("v1/namespaces/a%2Fb/tables/net%20sales/metrics", "a/b.net sales"),
        ("v1/namespaces/namespaces/tables/tables/metrics", "namespaces.tables"),
    ],
)
def test_the_path_names_the_table_whatever_the_catalog_puts_before_it(path: str, identifier: str) -> None:
    """An ingress hands on exactly the catalog's path, in which the levels of a namespace are joined by %1F."""
    assert address_of(path) == Address(identifier=identifier, kind=HookResource.METRICS)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "v1/config",
        "v1/namespaces/sales/tables/orders",
        "v1/namespaces/sales/views/orders/metrics",
        "v1/namespaces/sales/tables/orders/metrics/more",
        "namespaces/sales/tables/orders/metrics",
        "v1/namespaces//tables/orders/metrics",
    ],
)
def test_another_path_of_the_catalog_is_no_hook(path: str) -> None:
    """What is mirrored by mistake is not taken for a commit."""
    assert address_of(path) is None


def test_a_commit_report_is_about_the_table_of_its_path() -> None:
    """The name in the body is not asked: whoever can reach the path could write anything there."""
    body = json.dumps({"report-type": "commit-report", "table-name": "rest.hr.salaries"}).encode()

    assert hints_of(ORDERS, "lake", body) == (Named(identifier="sales.orders", catalog="lake"),)


@pytest.mark.parametrize(("report", "hints"), [("commit", (Named(identifier="sales.orders"),)), ("scan", ())])
def test_reports_are_understood_as_iceberg_writes_them(report: str, hints: tuple[Named, ...]) -> None:
    """Bodies as `ReportMetricsRequestParser` of Iceberg 1.11.0 has written them."""
    assert hints_of(ORDERS, None, (REPORTS / f"1.11.0-{report}.json").read_bytes()) == hints


@pytest.mark.parametrize("kind", ["scan-report", "a-report-of-later-versions"])
def test_reports_of_anything_else_are_about_no_change(kind: str) -> None:
    """Readers report each of their scans to the same path."""
    assert hints_of(ORDERS, "lake", json.dumps({"report-type": kind}).encode()) == ()


def test_a_notification_is_about_its_table_and_about_the_folder_of_its_metadata() -> None:
    """A Hadoop catalog's table may be registered by its folder; the catalog knows its name only."""
    payload = {
        "table-name": "orders",
        "timestamp": 1,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "metadata-location": "s3a://lake/sales/orders/metadata/00003-x.metadata.json",
    }
    body = json.dumps({"notification-type": "UPDATE", "payload": payload}).encode()

    assert hints_of(NOTIFIED, None, body) == (Named(identifier="sales.orders"), At(location="s3://lake/sales/orders"))


@pytest.mark.parametrize("metadata_file", [None, 3, "", "nowhere", "s3://*/metadata/x", "relative/metadata/x"])
def test_a_notification_without_a_usable_folder_is_about_its_table_alone(metadata_file: object) -> None:
    """The path has said enough."""
    body = json.dumps({"notification-type": "DROP", "payload": {"metadata-location": metadata_file}}).encode()

    assert hints_of(NOTIFIED, None, body) == (Named(identifier="sales.orders"),)


@pytest.mark.parametrize("address", [ORDERS, NOTIFIED])
@given(st.binary(max_size=200) | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps))
def test_whatever_is_neither_is_malformed(address: Address, body: bytes | str) -> None:
    """Nothing a stranger posts is more than a malformed hook."""
    with pytest.raises(MalformedHookError):
        hints_of(address, None, body.encode() if isinstance(body, str) else body)


@given(st.text(max_size=100))
def test_any_path_is_an_address_or_none(path: str) -> None:
    """A path that is none does not come through as an error of ours."""
    found = address_of(path)

    assert found is None or "." in found.identifier
