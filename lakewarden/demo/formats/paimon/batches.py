"""How one batch of rows becomes one Paimon commit: inserts, changes and deletions of rows by their key."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakewarden.demo.formats.paimon.core import Core
from lakewarden.demo.writers.record import Row

COLUMNS = ("region", "order_id", "version")
"""The columns of the table. The first is the partition, the first two are the key."""

EXPIRED = "2000-"
"""How the values of partitions begin that are long past. They are work for ttl. No record of a writer has their rows,
and readers leave them out, because they go at any time."""

_OPTIONS: Mapping[str, str] = {"bucket": "2"}


class StreamCommitter:
    """Commits each batch as a streaming job commits a checkpoint: by one commit user, with a number that rises.
    Fulfils `writing.Committer`.
    """

    def __init__(self, core: Core, folder: Path, *, options: Mapping[str, str], expired_every: int = 0) -> None:
        """`folder` is the table's. `options` are table options besides the demo's own. A row goes into a partition that
        is long past once in `expired_every` commits; 0 means never.
        """
        self._core = core
        self._folder = folder
        self._options = {**_OPTIONS, **options}
        self._expired_every = expired_every
        self._user = f"writer-{uuid.uuid4()}"
        self._identifier = 0
        self._job: tuple[Any, Any] | None = None

    def commit(self, _batch: int, rows: tuple[Row, ...]) -> None:
        """Commit the rows, into a table that is made before the first rows. After a failure the job begins anew."""
        self._identifier += 1
        writing, committing = self._job or self._begun()
        self._job = None
        for row in (*rows, *self._expired()):
            writing.write(self._made(row))
        committing.commit(self._identifier, writing.prepareCommit(bool(0), self._identifier))
        self._job = writing, committing

    def _expired(self) -> tuple[Row, ...]:
        if not self._expired_every or self._identifier % self._expired_every:
            return ()
        day = self._identifier // self._expired_every % 28 + 1
        key = f"expired-{self._identifier}"
        return (Row(key=key, partition=f"{EXPIRED}01-{day:02}", value=self._identifier),)

    def _begun(self) -> tuple[Any, Any]:
        paimon = self._core.paimon
        text, number = paimon.types.DataTypes.STRING(), paimon.types.DataTypes.INT()
        self._core.make_table(
            self._folder,
            columns=dict(zip(COLUMNS, (text, text, number), strict=True)),
            partitioned_by=COLUMNS[:1],
            key=COLUMNS[:2],
            options=self._options,
        )
        job = paimon.table.sink.StreamWriteBuilderImpl(self._core.table(self._folder)).withCommitUser(self._user)
        return job.newWrite(), job.newCommit()

    def _made(self, row: Row) -> Any:
        paimon = self._core.paimon
        made = paimon.data.GenericRow(len(COLUMNS))
        made.setField(0, paimon.data.BinaryString.fromString(row.partition))
        made.setField(1, paimon.data.BinaryString.fromString(row.key))
        made.setField(2, row.value)
        if row.deleted:
            made.setRowKind(paimon.types.RowKind.DELETE)
        return made
