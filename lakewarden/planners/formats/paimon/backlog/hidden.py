"""Rows that were committed and that readers do not see before a compaction. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from lakewarden.planners.formats.paimon.backlog.needs import Sight
from lakewarden.planners.formats.paimon.metadata.snapshots import CommitKind, Snapshot
from lakewarden.planners.model.instant import Service


def first_hidden(sight: Sight) -> Snapshot | None:
    """Return the first write after the newest compaction: as far as commits tell, its rows are hidden. None if there is
    none, or if readers of this table see level 0.
    """
    if not sight.schema.options.waits_for_compaction or not sight.holdings.level_0:
        return None
    compacted = _compacted(sight)
    snapshots = sight.history.snapshots
    return next((one for one in snapshots if (compacted is None or one.id > compacted.id) and one.is_write), None)


def unseen_since(sight: Sight) -> Mapping[Service, datetime]:
    """Return since when rows are hidden: since then at least. If there are files of level 0 from before the newest
    compaction, which has left buckets out, the time of that compaction counts.
    """
    if not sight.schema.options.waits_for_compaction or not sight.holdings.level_0:
        return {}
    since = first_hidden(sight) or _compacted(sight)
    return {} if since is None else {Service.COMPACTION: since.at}


def _compacted(sight: Sight) -> Snapshot | None:
    compactions = (one for one in sight.history.snapshots if one.kind is CommitKind.COMPACT)
    return max(compactions, key=lambda one: one.id, default=None)
