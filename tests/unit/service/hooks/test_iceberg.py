"""What writers report to an Iceberg catalog: which table a report is about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.catalogs.reports import hints_of, table_of
from lakewarden.planners.hooks import MalformedHookError, Named

ORDERS = "sales.orders"
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
    assert table_of(path) == identifier


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
    assert table_of(path) is None


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


@given(st.binary(max_size=200) | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps))
def test_whatever_is_no_report_is_malformed(body: bytes | str) -> None:
    """Nothing a stranger posts is more than a malformed hook."""
    with pytest.raises(MalformedHookError):
        hints_of(ORDERS, None, body.encode() if isinstance(body, str) else body)


@given(st.text(max_size=100))
def test_any_path_names_a_table_or_none(path: str) -> None:
    """A path that is none does not come through as an error of ours."""
    found = table_of(path)

    assert found is None or "." in found
