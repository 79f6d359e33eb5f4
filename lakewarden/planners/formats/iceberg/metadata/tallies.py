"""Counts of many data files together, by partition. A rewrite needs no more of files without deletes.

A table may have ten million files, and a commit adds a few. So manifests are tallied in small bundles, and bundles in
larger ones. An observation computes only the bundles again in which a manifest was added or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import is_, itemgetter
from typing import Any, NamedTuple

from lakewarden.planners.formats.iceberg.metadata.digests import ManifestDigest, Origin

_FAN = 16
_IN_A_BUNDLE = 4
_FAR = 8

TallyKey = tuple[int, str]
"""A partition spec and one of its partitions."""


class PartitionTally(NamedTuple):
    """The data files of one partition. `odd` is how many of them a rewrite would take because of their size. `bytes`,
    `oldest` and `newest` are the bytes and the least and greatest sequence number of those (0 if there are none).
    `origins` are a few origins that stand for those of all files. They tell which writers touched the partition.
    """

    files: int
    odd: int
    bytes: int
    oldest: int
    newest: int
    origins: tuple[Origin, ...]


Outline = Callable[[Iterable[Origin]], tuple[Origin, ...]]
"""Returns a few of many origins. They tell the same as all of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tallying:
    """How files are tallied. A file of `smallest` to `largest` bytes is not odd. `outline` is the same for all
    observations.
    """

    smallest: int
    largest: int
    outline: Outline = field(compare=False)

    def of(self, digests: Iterable[ManifestDigest]) -> Mapping[TallyKey, PartitionTally]:
        """Return the tallies of some manifests of data files, by partition."""
        return self.merged(map(self._tallied, digests))

    def merged(self, tallies: Iterable[Mapping[TallyKey, PartitionTally]]) -> Mapping[TallyKey, PartitionTally]:
        """Return the sum of several tallies."""
        found: dict[TallyKey, list[PartitionTally]] = {}
        for some in tallies:
            for place, tally in some.items():
                known = found.get(place)
                if known is None:
                    found[place] = [tally]
                else:
                    known.append(tally)
        return {place: alike[0] if len(alike) == 1 else self._together(alike) for place, alike in found.items()}

    def _together(self, alike: Sequence[PartitionTally]) -> PartitionTally:
        files, odd, size, _, newest, origins = zip(*alike, strict=True)
        different = set(origins)
        return PartitionTally(
            sum(files),
            sum(odd),
            sum(size),
            min((one.oldest for one in alike if one.odd), default=0),
            max(newest),
            different.pop() if len(different) == 1 else self.outline(set(chain.from_iterable(different))),
        )

    def _tallied(self, digest: ManifestDigest) -> Mapping[TallyKey, PartitionTally]:
        counts = [0] * len(digest.partitions)
        odd: dict[int, list[int]] = {}
        seen: list[set[int]] = [set() for _ in counts]
        for where, origin, size, rows in digest.data():
            counts[where] += 1
            seen[where].add(origin)
            if rows > 0 and not self.smallest <= size <= self.largest:
                sequence = digest.origins[origin][0]
                sums = odd.setdefault(where, [0, 0, sequence, sequence])
                sums[0] += 1
                sums[1] += size
                sums[2] = min(sums[2], sequence)
                sums[3] = max(sums[3], sequence)
        found = {}
        for where, partition in enumerate(digest.partitions):
            number, size, oldest, newest = odd.get(where, _NOTHING)
            origins = self.outline(digest.origins[one] for one in seen[where])
            found[digest.spec, partition] = PartitionTally(counts[where], number, size, oldest, newest, origins)
        return found


_NOTHING = (0, 0, 0, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Bundle:
    """Tallies of several manifests or bundles. `of` says which."""

    of: tuple[Any, ...]
    tallies: Mapping[TallyKey, PartitionTally]

    def is_of(self, others: tuple[Any, ...]) -> bool:
        return len(self.of) == len(others) and all(map(is_, self.of, others))


@dataclass(frozen=True, kw_only=True, slots=True)
class Tallies:
    """The tallies of a table's manifests of data files, and the bundles from which they were computed.

    A bundle has manifests of a similar number of files. Writers merge a hundred young manifests into one. If these were
    in bundles with large ones, nearly all files would be counted again. `bundles` is the number of bundles for each
    number of files.
    """

    how: Tallying | None = None
    small: Mapping[tuple[int, int], _Bundle] = field(default_factory=dict)
    large: Mapping[int, _Bundle] = field(default_factory=dict)
    bundles: Mapping[int, int] = field(default_factory=dict)

    def again(self, digests: Mapping[str, ManifestDigest], how: Tallying) -> Tallies:
        """Return the tallies of `digests`, by the paths of their manifests. Bundles that have not changed are used
        again.
        """
        known = self if self.how == how else Tallies()
        alike: dict[int, list[tuple[str, ManifestDigest]]] = {}
        for one in digests.items():
            alike.setdefault(len(one[1]).bit_length() // 2, []).append(one)
        bundles = {kind: _bundles(len(some), known.bundles.get(kind)) for kind, some in alike.items()}
        sorted_in: dict[tuple[int, int], list[ManifestDigest]] = {}
        for kind, some in alike.items():
            for path, digest in some:
                sorted_in.setdefault((hash(path) % bundles[kind], kind), []).append(digest)
        small = {at: _bundled(tuple(every), known.small.get(at), how.of) for at, every in sorted_in.items()}
        groups: dict[int, list[_Bundle]] = {}
        for (number, _), bundle in sorted(small.items(), key=itemgetter(0)):
            groups.setdefault(number % _FAN, []).append(bundle)
        merge = partial(_merged, how)
        large = {at: _bundled(tuple(group), known.large.get(at), merge) for at, group in groups.items()}
        return Tallies(how=how, small=small, large=large, bundles=bundles)

    def total(self) -> Mapping[TallyKey, PartitionTally]:
        """Return the tallies of all manifests together."""
        return {} if self.how is None else _merged(self.how, tuple(self.large.values()))


def _merged(how: Tallying, bundles: tuple[_Bundle, ...]) -> Mapping[TallyKey, PartitionTally]:
    return how.merged(bundle.tallies for bundle in bundles)


def _bundled(
    of: tuple[Any, ...], known: _Bundle | None, make: Callable[[tuple[Any, ...]], Mapping[TallyKey, PartitionTally]]
) -> _Bundle:
    return known if known is not None and known.is_of(of) else _Bundle(of=of, tallies=make(of))


def _bundles(manifests: int, known: int | None) -> int:
    """Return how many bundles there are for so many manifests. It is the known number, unless that is far from what
    would be chosen anew. With another number every file is counted again.
    """
    anew = 1 << max(0, (manifests // _IN_A_BUNDLE - 1).bit_length())
    return known if known is not None and anew <= known * _FAR and known <= anew * _FAR else anew
