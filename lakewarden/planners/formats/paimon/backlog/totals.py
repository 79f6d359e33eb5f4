"""The files of a snapshot, as the sum of its manifests. A commit costs what it changed: manifests that came are added,
and manifests that went are taken off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.formats.paimon.metadata.manifests import MOST, Digest, Key, Tally

Totals = Mapping[Key, Tally]


def changed(totals: Totals, *, came: Iterable[Digest], went: Iterable[Digest]) -> Totals:
    """Return the sums without what is none. Raises DamagedError where files are deleted that no manifest adds, or where
    there are too many levels of buckets.
    """
    sums = dict(totals)
    touched: set[Key] = set()
    for digests, sign in ((came, 1), (went, -1)):
        for one in digests:
            touched.update(one.tallies)
            _add(sums, one.tallies, sign)
    for key in touched:
        tally = sums[key]
        if min(tally) < 0 or (not tally.files and any(tally)) or tally.small > tally.files:
            raise DamagedError(
                f"they delete files of bucket {key[1]} at level {key[2]} that none of them adds, or add some twice"
            )
        if not tally.files:
            del sums[key]
    if len(sums) > MOST:
        raise DamagedError(f"they have files in more than {MOST} levels of buckets, which is more than is counted")
    return sums


def _add(sums: dict[Key, Tally], tallies: Mapping[Key, Tally], sign: int) -> None:
    for key, one in tallies.items():
        was = sums.get(key)
        if was is None:
            sums[key] = one if sign > 0 else Tally(-one.files, -one.bytes, -one.rows, -one.small)
        else:
            sums[key] = Tally(
                was.files + sign * one.files,
                was.bytes + sign * one.bytes,
                was.rows + sign * one.rows,
                was.small + sign * one.small,
            )
