"""A real REST catalog that hands out credentials, and a real S3 server: SeaweedFS is both.

Its token service issues keys for one table and for a limited time. The daemon asks as the *warden*, which has no right
to any bucket.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import botocore.session
from pyiceberg.catalog.rest import RestCatalog

from lakewarden.demo.daemon import free_port
from tests.support.object_stores.s3_server import ACCESS_KEY, SECRET_KEY, S3Server, identity

WAREHOUSES = ("first", "second")
WARDEN_KEY, WARDEN_SECRET = "warden", "the-secret-of-the-warden"
_ROLE = "arn:aws:iam::role/Vending"


class VendingCatalog(S3Server):
    """The server, with a table bucket for each warehouse. `life` of its credentials is in seconds, 900 at least."""

    def __init__(self, folder: Path, *, life: int = 3600) -> None:
        super().__init__(folder)
        self._life = life
        self._catalog_port = free_port()
        self._iam = folder / "iam.json"
        (folder / "credential").write_text(f"{WARDEN_KEY}:{WARDEN_SECRET}")
        (folder / "warden_access").write_text(WARDEN_KEY)
        (folder / "warden_secret").write_text(WARDEN_SECRET)

    @property
    def uri(self) -> str:
        """Where the catalog listens."""
        return f"http://127.0.0.1:{self._catalog_port}"

    def settings(self, warehouse: str = WAREHOUSES[0], **changes: Any) -> dict[str, Any]:
        """Return the settings of a catalog, by which Lakewarden asks as the warden."""
        return {
            "type": "rest",
            "uri": self.uri,
            "warehouse": f"s3://{warehouse}",
            "credential": {"file": str(self._folder / "credential")},
            "access": "vended",
            **changes,
        }

    @property
    def sigv4(self) -> dict[str, Any]:
        """Return the settings by which requests are signed as the warden."""
        keys = {"access_key": "warden_access", "secret_key": "warden_secret"}
        return {
            "service": "s3tables",
            "region": "us-east-1",
            **{key: {"file": str(self._folder / name)} for key, name in keys.items()},
        }

    def wardens_own(self) -> Mapping[str, Any]:
        """Return the settings of a store that is reached with the warden's own keys."""
        files = {"access_key": "warden_access", "secret_key": "warden_secret"}
        return {
            "prefix": "s3://",
            "endpoint": self.endpoint,
            "path_style": True,
            **{key: {"file": str(self._folder / name)} for key, name in files.items()},
        }

    def client(self, warehouse: str = WAREHOUSES[0]) -> RestCatalog:
        """Return pyiceberg's client, which makes and writes tables as their owner."""
        return RestCatalog(
            "writer",
            uri=self.uri,
            warehouse=f"s3://{warehouse}",
            credential=f"{ACCESS_KEY}:{SECRET_KEY}",
            **{"oauth2-server-uri": f"{self.uri}/v1/oauth/tokens", "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"},
        )

    def others(self) -> Sequence[Mapping[str, Any]]:
        """Return the warden: it may ask the catalog, and may read no bucket."""
        return (identity("warden", WARDEN_KEY, WARDEN_SECRET, ["s3tables:*"]),)

    def options(self) -> Sequence[str]:
        """Return where the catalog listens, and what it hands out."""
        trusted = {"Effect": "Allow", "Principal": {"Federated": "iceberg-catalog"}}
        anything = {"Effect": "Allow", "Action": ["s3:*"], "Resource": ["arn:aws:s3:::*", "arn:aws:s3:::*/*"]}
        told = {
            "sts": {
                "tokenDuration": "1h",
                "maxSessionLength": "12h",
                "issuer": "seaweedfs-sts",
                "signingKey": "dGhlLXNpZ25pbmcta2V5LW9mLXRoZS10ZXN0cy0zMi1jaGFycw==",
            },
            "policy": {"defaultEffect": "Deny", "storeType": "memory"},
            "roleStore": {"storeType": "memory"},
            "roles": [
                {
                    "roleName": "Vending",
                    "roleArn": _ROLE,
                    "trustPolicy": _policy({**trusted, "Action": ["sts:AssumeRoleWithCredentials"]}),
                    "attachedPolicies": ["Anything"],
                }
            ],
            "policies": [{"name": "Anything", "document": _policy(anything)}],
        }
        self._iam.write_text(json.dumps(told))
        return (
            f"-s3.port.iceberg={self._catalog_port}",
            f"-s3.iam.config={self._iam}",
            f"-s3.externalUrl={self.endpoint}",
            f"-s3.iceberg.credentialRole={_ROLE}",
            f"-s3.iceberg.credentialDurationSeconds={self._life}",
        )

    def start(self) -> None:
        """Start it, and return when the warehouses are there."""
        super().start()
        tables = botocore.session.get_session().create_client(
            "s3tables",
            region_name="us-east-1",
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        )
        for warehouse in WAREHOUSES:
            tables.create_table_bucket(name=warehouse)


def _policy(statement: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"Version": "2012-10-17", "Statement": [statement]}
