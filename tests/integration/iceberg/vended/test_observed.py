"""Tables on a real S3 server are observed with the credentials that a real REST catalog hands out, without a JVM."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import TypeAdapter

from lakewarden.planners.formats.iceberg.catalogs.settings import Catalog
from lakewarden.planners.formats.iceberg.format import IcebergFormat
from lakewarden.planners.formats.iceberg.options.service_options import CleanOptions, CompactionOptions
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.content import StoreRefusedError
from lakewarden.planners.storage.settings import S3Store
from lakewarden.planners.triggers import NumCommits
from tests.support.catalogs.vending_catalog import WAREHOUSES, VendingCatalog

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
NAMES = ("sales.orders", "sales.eu.orders")
SETTINGS: TypeAdapter[Any] = TypeAdapter(Catalog)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VendingCatalog]:
    server = VendingCatalog(tmp_path_factory.mktemp("vending"), life=900)
    server.start()
    for rows, warehouse in enumerate(WAREHOUSES, start=1):
        client = server.client(warehouse)
        for namespace in (("sales",), ("sales", "eu")):
            client.create_namespace(namespace)
            table = client.create_table((*namespace, "orders"), ROWS.schema)
            for _ in range(rows):
                table.append(ROWS)
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def _no_keys_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def _table(name: str, settings: dict[str, Any]) -> Table:
    policies = {
        Service.CLEAN: Policy(trigger=NumCommits(at_least=1), options=CleanOptions()),
        Service.COMPACTION: Policy(trigger=NumCommits(at_least=1), options=CompactionOptions()),
    }
    return Table(
        id=TableId(name),
        format="iceberg",
        location=f"catalog://lake/{name}",
        catalog=SETTINGS.validate_python(settings),
        policies=policies,
    )


def _commits(table: Table, *stores: S3Store, iceberg: IcebergFormat | None = None) -> int:
    storage = Storages(stores).of(table.location)
    seen = (iceberg or IcebergFormat()).observe(table, storage, None, now=datetime.now(UTC))
    assert not seen.view.faults
    return len(seen.view.timeline.instants)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("warehouse", "commits"), [(WAREHOUSES[0], 1), (WAREHOUSES[1], 2)])
def test_a_table_is_read_with_what_the_catalog_hands_out(
    server: VendingCatalog, name: str, warehouse: str, commits: int
) -> None:
    """This covers OAuth, several warehouses, nested namespaces, manifests, and the plans beside a table."""
    assert _commits(_table(name, server.settings(warehouse))) == commits


def test_requests_to_the_catalog_may_be_signed(server: VendingCatalog) -> None:
    """SigV4 takes the place of the token. The server verifies the signature."""
    signed = server.settings(credential=None, sigv4=server.sigv4)
    assert _commits(_table("sales.eu.orders", signed)) == 1


def test_our_own_credentials_open_no_bucket(server: VendingCatalog) -> None:
    """Without vended credentials the same table is not read. The reason names the setting."""
    own = S3Store.model_validate(server.wardens_own())
    with pytest.raises(StoreRefusedError, match="access: vended"):
        _commits(_table("sales.orders", server.settings(access="storage")), own)


def test_what_is_handed_out_for_one_table_opens_no_other(server: VendingCatalog) -> None:
    """The metadata of a table may name a file elsewhere. That file is read with no credentials at all."""
    iceberg, table = IcebergFormat(), _table("sales.orders", server.settings())
    _commits(table, iceberg=iceberg)
    storage = iceberg._vended.of(table, Storages([S3Store.model_validate(server.wardens_own())]).of(table.location))

    with pytest.raises(StoreRefusedError, match="handed out no credentials for that place"):
        storage.listing("s3://first/sales.eu/orders/metadata")
    with pytest.raises(StoreRefusedError, match="handed out no credentials for that place"):
        storage.read("/etc/hostname")


def test_credentials_are_renewed_before_they_end(server: VendingCatalog) -> None:
    """A table may be observed for longer than its credentials live."""
    iceberg, table = IcebergFormat(), _table("sales.orders", server.settings())
    _commits(table, iceberg=iceberg)
    storage: Any = iceberg._vended.of(table, Storages().of(table.location))
    first = storage._handed.vended.credentials[0]

    storage._now = lambda: time.time() + 800
    _commits(table, iceberg=iceberg)

    [second] = storage._handed.vended.credentials
    assert second.access_key != first.access_key
    storage._now = lambda: time.time() + 2000
    storage.forget_the_ended()
    assert storage._handed is None


def test_no_message_of_a_real_store_contains_a_credential(
    server: VendingCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    """This holds for each kind of refusal."""
    iceberg, table = IcebergFormat(), _table("sales.orders", server.settings())
    _commits(table, iceberg=iceberg)
    storage: Any = iceberg._vended.of(table, Storages().of(table.location))
    [credential] = storage._handed.vended.credentials
    shown = repr(storage.__dict__) + repr(storage._handed) + caplog.text
    for wrong in ("s3://first/sales/orders/metadata/none", "s3://first/sales/orders", "s3://first/sales.eu"):
        try:
            storage.read(wrong)
        except (TemporaryError, FileNotFoundError) as error:
            shown += repr(error) + repr(error.__cause__)

    assert not any(secret in shown for secret in credential.secrets())


def test_a_wrong_credential_is_named(server: VendingCatalog, tmp_path: Path) -> None:
    """The message is about the login to the catalog, not about the store."""
    (tmp_path / "wrong").write_text("warden:wrong")
    with pytest.raises(Exception, match=r"check catalogs\.lake\.credential"):
        _commits(_table("sales.orders", server.settings(credential={"file": str(tmp_path / "wrong")})))
