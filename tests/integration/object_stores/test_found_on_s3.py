"""Hudi tables are found on a real S3 server by the pattern of their paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.catalogs import PathsCatalog
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.storage import Storages
from tests.support.object_stores.s3_server import BUCKET, S3Server
from tests.unit.planners.formats.hudi.test_fixtures import unpacked


def test_tables_are_found_in_a_bucket(s3_server: S3Server, tmp_path: Path) -> None:
    """Folders exist only by their content. A missing place and a forbidden place are errors."""
    s3_server.start()
    place = f"{BUCKET}/found-{tmp_path.name}"
    unpacked("mor_v9", tmp_path / "t")
    for name in ("sales/hudi_orders", "sales/eu/hudi_returns", "hudi_top"):
        s3_server.upload(tmp_path / "t", f"{place.removeprefix(f'{BUCKET}/')}/{name}")
    catalog = PathsCatalog(type="paths", path=f"s3a://{place}/**/hudi_*/")

    listing = HUDI.tables_in("lake", catalog, Storages([s3_server.store()]).of("catalog://lake/any.table"))

    assert listing.locations == {
        "hudi_top": f"s3://{place}/hudi_top",
        "sales.hudi_orders": f"s3://{place}/sales/hudi_orders",
        "sales.eu.hudi_returns": f"s3://{place}/sales/eu/hudi_returns",
    }
    assert not listing.unlisted
    with pytest.raises(PermanentError, match="there is no folder"):
        HUDI.tables_in(
            "lake",
            PathsCatalog(type="paths", path=f"s3://{place}/nowhere/*"),
            Storages([s3_server.store()]).of("catalog://lake/any.table"),
        )
    (tmp_path / "wrong").write_text("wrong")
    shut = s3_server.store(secret_key={"file": str(tmp_path / "wrong")})
    with pytest.raises(TemporaryError, match="denies access"):
        HUDI.tables_in("lake", catalog, Storages([shut]).of("catalog://lake/any.table"))
