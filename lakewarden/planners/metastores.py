"""Hive metastores. The first of several that answers is asked, with one connection for each request and within bounds.

The client comes with pyiceberg, generated from Hive's own IDL. It needs the extra `hive`.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from lakewarden.planners.model.errors import PermanentError, TemporaryError, installing

if TYPE_CHECKING:
    from hive_metastore.ThriftHiveMetastore import Client  # type: ignore[import-untyped]

URIS = r"^thrift://[^,\s]+(,thrift://[^,\s]+)*$"
"""The form of the addresses of metastores: `thrift://host:9083`, with commas between several."""

_T = TypeVar("_T")
_PORT = 9083
_LONGEST_TEXT = 16 * 2**20
_MOST_ENTRIES = 1_000_000

logging.getLogger("thrift").addHandler(logging.NullHandler())  # what it says is in the error that is raised


class NoAnswerError(TemporaryError):
    """None of the metastores has answered."""


class Metastores:
    """The metastores of one catalog. Any thread may use it."""

    def __init__(self, name: str, uris: str, *, timeout: timedelta) -> None:
        """Prepare the client. `name` is the name of the catalog for people. Raises PermanentError if the client is not
        installed.
        """
        if any(importlib.util.find_spec(needed) is None for needed in ("hive_metastore", "thrift")):
            raise PermanentError(f"the catalog {name} needs a Thrift client: {installing('hive')}")
        self._name = name
        self._uris = uris.split(",")
        self._timeout = timeout

    def asked(self, ask: Callable[[Client], _T]) -> _T:
        """Return the result of `ask`. Hive's own NoSuchObjectException is raised as it is.

        Raises NoAnswerError, and TemporaryError if a metastore has answered with an error.
        """
        from hive_metastore.ttypes import MetaException, NoSuchObjectException  # type: ignore  # noqa: PLC0415
        from thrift.Thrift import TApplicationException, TException  # type: ignore  # noqa: PLC0415

        errors, answered = [], False
        for uri in self._uris:
            try:
                return self._ask_one(uri, ask)
            except NoSuchObjectException:
                raise
            except (TException, MetaException, OSError, EOFError) as error:
                answered = answered or isinstance(error, MetaException | TApplicationException)
                errors.append(f"{uri}: {' '.join(str(error).split()) or type(error).__name__}")
        kind = TemporaryError if answered else NoAnswerError
        raise kind(f"the catalog {self._name} does not answer: {'; '.join(errors)}")

    def _ask_one(self, uri: str, ask: Callable[[Client], _T]) -> _T:
        """Ask one metastore. Its exceptions must not pass a generator's `with` block: they are frozen, and the block
        would set an attribute.
        """
        from hive_metastore.ThriftHiveMetastore import Client  # noqa: PLC0415 - optional, and slow to import
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol  # type: ignore  # noqa: PLC0415
        from thrift.transport.TSocket import TSocket  # type: ignore  # noqa: PLC0415
        from thrift.transport.TTransport import TBufferedTransport  # type: ignore  # noqa: PLC0415

        where = urlsplit(uri)
        socket = TSocket(where.hostname, where.port or _PORT)
        socket.setTimeout(self._timeout.total_seconds() * 1000)
        transport = TBufferedTransport(socket)
        transport.open()
        try:
            bounded = TBinaryProtocol(
                transport, string_length_limit=_LONGEST_TEXT, container_length_limit=_MOST_ENTRIES
            )
            return ask(Client(bounded))
        finally:
            transport.close()
