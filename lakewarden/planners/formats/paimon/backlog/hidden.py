"""Rows that were committed and that readers do not see before a compaction. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from lakewarden.planners.formats.paimon.backlog.needs import NeedFacts
from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot
from lakewarden.planners.model.instant import Service


def first_hidden(facts: NeedFacts) -> Snapshot | None:
    """Return the first write after the newest compaction: as far as commits tell, its rows are hidden. None if there is
    none, or if readers of this table see level 0.
    """
    if not facts.schema.options.waits_for_compaction or not facts.holdings.level_0:
        return None
    compacted = _compacted(facts)
    snapshots = facts.history.snapshots
    return next((one for one in snapshots if (compacted is None or one.id > compacted.id) and one.is_write), None)


def unseen_since(facts: NeedFacts) -> Mapping[Service, datetime]:
    """Return since when rows are hidden: since then at least. If there are files of level 0 from before the newest
    compaction, which has left buckets out, the time of that compaction counts.
    """
    if not facts.schema.options.waits_for_compaction or not facts.holdings.level_0:
        return {}
    since = first_hidden(facts) or _compacted(facts)
    return {} if since is None else {Service.COMPACTION: since.at}


def _compacted(facts: NeedFacts) -> Snapshot | None:
    compactions = (one for one in facts.history.snapshots if one.is_compaction and one.id not in facts.since.idle)
    return max(compactions, key=lambda one: one.id, default=None)
