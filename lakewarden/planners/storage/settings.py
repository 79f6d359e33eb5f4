"""The settings of one store, by the scheme of its prefix. Spark and the reader without Spark use the same ones."""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.printable import hide
from lakewarden.planners.settings import Duration, Settings, Within
from lakewarden.planners.storage.locations import canonical_location, canonical_scheme


class Secret(Settings):
    """Where a secret is. The secret itself never stands in the configuration. It is read again for every new
    connection.
    """

    env: str | None = None
    """The environment variable that holds it."""

    file: Path | None = None
    """The file that holds it, such as a mounted Kubernetes Secret. White space around the secret is ignored."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Secret:
        if (self.env is None) == (self.file is None):
            raise ValueError("a secret is {env: NAME} or {file: PATH}, one of the two")
        return self

    def value(self) -> str:
        """Return the secret. If there is none, raises PermanentError that names the place."""
        if self.env is not None:
            secret = os.environ.get(self.env, "")
            where = f"the environment variable {self.env} is not set"
        else:
            where = f"the file {self.file} cannot be read"
            try:
                secret = Path(self.file or "").read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError):
                secret = ""
        if not secret:
            raise PermanentError(f"a secret is missing: {where}, or it is empty")
        hide(secret)
        return secret


def _a_reference(value: Any) -> Any:
    """Refuse a secret in plain text, without repeating it."""
    if isinstance(value, Secret | Mapping):
        return value
    raise ValueError("a secret must not be in the configuration: write {env: NAME} or {file: PATH} instead")


SecretSetting = Annotated[Secret, BeforeValidator(_a_reference)]

_SETTINGS_OF_HADOOP: Mapping[str, str] = {
    ".access.key.": "access_key",
    ".secret.key.": "secret_key",
    ".endpoint.region.": "region",
    ".endpoint.": "endpoint",
    ".path.style.access.": "path_style",
    ".json.keyfile.": "key_file",
    "fs.azure.account.key.": "account_key",
}
"""Parts of Hadoop's properties that have a setting of a store. As properties they would put secrets into the file."""


class StoreSettings(Settings):
    """The settings that every kind of store has."""

    scheme: ClassVar[str]

    prefix: str
    """The locations that the settings are for: `s3://bucket`, or `s3://` for every bucket without settings of
    its own."""

    timeout: Annotated[Duration, Within("100ms", "10m")] = Field(default="20s", validate_default=True)
    """A request without Spark (a listing with all its pages, or a file) fails if it is not answered within this
    time."""

    options: dict[str, Any] = Field(default_factory=dict)
    """Further options of the reader without Spark: obstore's own, or fsspec's for HDFS (none by default)."""

    hadoop: dict[str, str] = Field(default_factory=dict)
    """Further Hadoop properties, with their whole names (none by default)."""

    @field_validator("prefix")
    @classmethod
    def _a_whole_store(cls, value: str) -> str:
        scheme, _, rest = value.partition("://")
        if not rest.strip("/"):
            return f"{canonical_scheme(scheme)}://"
        try:
            prefix = canonical_location(value)
        except PermanentError as wrong:
            raise ValueError(str(wrong)) from wrong
        if "/" in prefix.partition("://")[2]:
            raise ValueError("Hadoop knows settings of a whole bucket only: end the prefix after it")
        return prefix

    @field_validator("hadoop")
    @classmethod
    def _nothing_that_is_a_setting(cls, value: dict[str, str]) -> dict[str, str]:
        for key in value:
            setting = next((setting for part, setting in _SETTINGS_OF_HADOOP.items() if part in f"{key}."), None)
            if setting is not None:
                raise ValueError(f"{key} is for Spark alone: set {setting}, which the daemon's own reads obey too")
        return value

    @property
    def host(self) -> str:
        """The bucket, container or name node. It is empty for all of them."""
        return self.prefix.partition("://")[2]

    def covers(self, location: str) -> bool:
        """Whether a canonical location is below the prefix."""
        return location == self.prefix or location.startswith(self.prefix if not self.host else f"{self.prefix}/")

    def hadoop_properties(self) -> dict[str, str]:
        """Return the Hadoop properties, secrets included. Raises PermanentError if a secret is missing."""
        return {}


class ObjectStoreSettings(StoreSettings):
    """The settings that every store of obstore has."""

    client: ClassVar[str]
    """The name of the client in obstore."""

    ours: ClassVar[frozenset[str]]
    """The options of obstore that have a setting here. They are not allowed among the options."""

    @field_validator("options")
    @classmethod
    def _known_and_none_of_ours(cls, value: dict[str, Any]) -> dict[str, Any]:
        names = {name: re.sub(r"^(aws|google|azure_storage|azure)_", "", name.lower()) for name in value}
        ours = cls.ours | {"prefix", "config", "credential_provider", "retry_config"}
        if twice := sorted(name for name, plain in names.items() if plain in ours):
            raise ValueError(f"{', '.join(twice)}: use the settings of the store itself, which Spark obeys too")
        if value and importlib.util.find_spec("obstore") is not None:
            cls._tried(value)
        return value

    @classmethod
    def _tried(cls, options: dict[str, Any]) -> None:
        """Raise ValueError unless obstore accepts the options. It makes no request."""
        from obstore import store  # noqa: PLC0415 - an optional package

        named = {"container_name": "any", "account_name": "any"} if cls.scheme == "abfss" else {"bucket": "any"}
        try:
            getattr(store, cls.client)(**named, **options)
        except Exception as error:
            raise ValueError(f"obstore does not accept it: {f'{error}'.splitlines()[0]}") from error

    def client_arguments(self, host: str) -> dict[str, Any]:
        """Return the arguments of obstore's client for a bucket or container. Raises PermanentError if a secret is
        missing.

        A request ends by `timeout`. If it fails at once, it is tried twice more. Then it ends at most a quarter later.
        """
        retry = {"max_retries": 2, "retry_timeout": self.timeout / 4, "backoff": {"max_backoff": timedelta(seconds=1)}}
        timeouts = {"timeout": self.timeout, "connect_timeout": self.timeout / 4, "read_timeout": self.timeout / 2}
        return {"client_options": timeouts, "retry_config": retry}


class S3Store(ObjectStoreSettings):
    """Amazon S3 and compatible stores."""

    scheme: ClassVar[str] = "s3"
    client: ClassVar[str] = "S3Store"
    ours: ClassVar[frozenset[str]] = frozenset(
        {"access_key_id", "secret_access_key", "session_token", "token", "skip_signature", "bucket", "bucket_name"}
        | {"endpoint", "endpoint_url", "endpoint_url_s3", "region", "virtual_hosted_style_request"}
    )

    endpoint: str | None = Field(default=None, pattern=r"^https?://[^/@\s]+/?$", examples=["https://minio:9000"])
    """The address of an S3-compatible store, as in `http://minio:9000`. The default is Amazon."""

    region: str | None = None
    """The region. The default comes from the environment."""

    path_style: bool = False
    """Whether the bucket is named in the path and not in the host name. Most S3-compatible stores need it."""

    anonymous: bool = False
    """Whether requests are not signed. This is for public buckets, which can only be observed."""

    access_key: SecretSetting | None = None
    """The access key. Without one, the environment is used: variables, web identity, instance profile."""

    secret_key: SecretSetting | None = None
    """The secret key that belongs to the access key."""

    @model_validator(mode="after")
    def _one_kind_of_credentials(self) -> S3Store:
        if (self.access_key is None) != (self.secret_key is None):
            raise ValueError("access_key and secret_key belong together: give both or none")
        if self.anonymous and self.access_key is not None:
            raise ValueError("anonymous and access_key contradict each other: remove one")
        return self

    def client_arguments(self, host: str) -> dict[str, Any]:
        """Return the arguments of obstore's S3Store. It finds the others in the environment by itself.

        Keys are passed by a function, because a session token of the environment belongs to other keys.
        """
        arguments = super().client_arguments(host) | {"bucket": host, "disable_bulk_delete": True}
        endpoint = self.endpoint or next(filter(None, map(os.environ.get, _ENDPOINTS)), None)
        in_host_name = not self.path_style and "." not in host  # a certificate is for one name below the endpoint's
        if endpoint is not None:
            parts = urlsplit(endpoint)
            in_host_name = in_host_name and not _is_an_address(parts.hostname or "")
            netloc = f"{host}.{parts.netloc}" if in_host_name else parts.netloc
            arguments["endpoint"] = f"{parts.scheme}://{netloc}{parts.path.rstrip('/')}"
            arguments["client_options"]["allow_http"] = parts.scheme == "http"
        arguments["virtual_hosted_style_request"] = in_host_name
        if self.region is not None:
            arguments["region"] = self.region
        if self.anonymous:
            arguments["skip_signature"] = True
        if self.access_key is not None and self.secret_key is not None:
            keys = {"access_key_id": self.access_key.value(), "secret_access_key": self.secret_key.value()}
            arguments["credential_provider"] = lambda: {**keys, "token": None, "expires_at": None}
        return arguments

    def hadoop_properties(self) -> dict[str, str]:
        """Return the properties of S3A. Source: Hadoop 3.3.4, `org.apache.hadoop.fs.s3a.Constants`."""
        properties = {"path.style.access": str(self.path_style).lower(), "aws.credentials.provider": _AS_BOTO_DOES}
        if self.endpoint is not None:
            properties["endpoint"] = self.endpoint.rstrip("/")
            properties["connection.ssl.enabled"] = str(urlsplit(self.endpoint).scheme == "https").lower()
        if self.region is not None:
            properties["endpoint.region"] = self.region
        if self.anonymous:
            properties["aws.credentials.provider"] = f"{_S3A}.AnonymousAWSCredentialsProvider"
        if self.access_key is not None and self.secret_key is not None:
            properties["aws.credentials.provider"] = f"{_S3A}.SimpleAWSCredentialsProvider"
            properties |= {"access.key": self.access_key.value(), "secret.key": self.secret_key.value()}
        start = f"fs.s3a.bucket.{self.host}" if self.host else "fs.s3a"
        everywhere = {"fs.s3.impl": f"{_S3A}.S3AFileSystem", "fs.s3a.connection.maximum": _CONNECTIONS}
        return everywhere | {f"{start}.{key}": value for key, value in properties.items()}


def _is_an_address(host: str) -> bool:
    """Whether a host is a numeric address. There are no names below one."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_S3A = "org.apache.hadoop.fs.s3a"
_CONNECTIONS = "4000"
"""Hudi leaves streams open, and each keeps a connection (docs/object_stores.md). S3A's own limit is 96."""

_AS_BOTO_DOES = "com.amazonaws.auth.DefaultAWSCredentialsProviderChain"
"""It uses web identities, as pods on Kubernetes have them. S3A's own default does not."""


class GcsStore(ObjectStoreSettings):
    """Google Cloud Storage. Hadoop has one account for all buckets."""

    scheme: ClassVar[str] = "gs"
    client: ClassVar[str] = "GCSStore"
    ours: ClassVar[frozenset[str]] = frozenset({"bucket", "bucket_name", "service_account", "service_account_path"})

    key_file: Path | None = None
    """The key of a service account, as JSON. Without one, the environment's default credentials are used."""

    def client_arguments(self, host: str) -> dict[str, Any]:
        """Return the arguments of obstore's GCSStore."""
        key = {} if self.key_file is None else {"service_account": str(self.key_file)}
        return super().client_arguments(host) | {"bucket": host} | key

    def hadoop_properties(self) -> dict[str, str]:
        """Return the properties of the GCS connector, version 2."""
        implementation = {"fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem"}
        if self.key_file is None:
            return implementation
        return implementation | {
            "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
            "fs.gs.auth.service.account.json.keyfile": str(self.key_file),
        }


class AzureStore(ObjectStoreSettings):
    """Azure Data Lake Storage, as in `abfss://container@account.dfs.core.windows.net`."""

    scheme: ClassVar[str] = "abfss"
    client: ClassVar[str] = "AzureStore"
    ours: ClassVar[frozenset[str]] = frozenset({"container_name", "account_name", "account_key", "access_key"})

    account_key: SecretSetting | None = None
    """The storage account's key. Without one, the environment's default credentials are used."""

    @property
    def account(self) -> str:
        """The storage account with its domain. It is empty for all of them."""
        return self.host.rpartition("@")[2]

    def client_arguments(self, host: str) -> dict[str, Any]:
        """Return the arguments of obstore's AzureStore. It uses the account's blob endpoint."""
        container, _, account = host.rpartition("@")
        name, _, domain = account.partition(".")
        arguments = super().client_arguments(host) | {"container_name": container, "account_name": name}
        if domain.startswith("dfs.") and domain != "dfs.core.windows.net":  # the cloud of a country
            arguments["endpoint"] = f"https://{name}.blob.{domain.removeprefix('dfs.')}"
        return arguments | ({} if self.account_key is None else {"account_key": self.account_key.value()})

    def hadoop_properties(self) -> dict[str, str]:
        """Return the properties of ABFS."""
        if self.account_key is None:
            return {}
        end = f".{self.account}" if self.account else ""
        return {f"fs.azure.account.key{end}": self.account_key.value()}


class HdfsStore(StoreSettings):
    """HDFS. The Hadoop configuration of the machine has its name nodes and their security."""

    scheme: ClassVar[str] = "hdfs"


_KINDS = (S3Store, GcsStore, AzureStore, HdfsStore)


def _scheme_of(value: Any) -> str | None:
    prefix = value.get("prefix") if isinstance(value, Mapping) else getattr(value, "prefix", None)
    if not isinstance(prefix, str) or "://" not in prefix:
        return None
    scheme = canonical_scheme(prefix.partition("://")[0])
    return scheme if any(kind.scheme == scheme for kind in _KINDS) else None


StoreSetting = Annotated[
    Annotated[S3Store, Tag("s3")]
    | Annotated[GcsStore, Tag("gs")]
    | Annotated[AzureStore, Tag("abfss")]
    | Annotated[HdfsStore, Tag("hdfs")],
    Discriminator(
        _scheme_of,
        custom_error_type="unknown_store",
        custom_error_message="It needs a prefix that begins with s3://, gs://, abfss:// or hdfs://",
    ),
]


def setting_of(location: str, stores: Iterable[StoreSettings]) -> StoreSettings | None:
    """Return the settings with the longest prefix of a canonical location. If none fits, return the defaults of its
    scheme.

    None for local locations, and for schemes without settings.
    """
    fitting = [store for store in stores if store.covers(location)]
    if fitting:
        return max(fitting, key=lambda store: len(store.prefix))
    scheme = location.partition("://")[0]
    kind = next((kind for kind in _KINDS if kind.scheme == scheme and "://" in location), None)
    return None if kind is None else kind(prefix=f"{scheme}://")
