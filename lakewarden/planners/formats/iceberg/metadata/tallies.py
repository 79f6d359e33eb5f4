"""What is told of many data files together, by partition: where no deletes are, a rewrite asks for no more.

A table may have ten million files, and a commit adds some. So manifests are tallied in small bundles, and bundles in
larger ones: a look makes anew only those in which a manifest came or went.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import is_
from typing import Any, NamedTuple

from lakewarden.planners.formats.iceberg.metadata.digests import Digest, Origin

_FAN = 16
_IN_A_BUNDLE = 4

Place = tuple[int, str]
"""A partition spec, and a partition of it."""


class Tally(NamedTuple):
    """The data files of one partition. `odd` is how many of them a rewrite would take for their size, `bytes` are those
    of these, and `oldest` and `newest` their least and greatest sequence numbers (0 where there are none). `origins`
    stand for those of all files: whom the partition was touched by is told by them.
    """

    files: int
    odd: int
    bytes: int
    oldest: int
    newest: int
    origins: tuple[Origin, ...]


Outline = Callable[[Iterable[Origin]], tuple[Origin, ...]]
"""Returns those of many origins that tell the same as all of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tallying:
    """How files are tallied: one of `smallest` to `largest` bytes is not odd. `outline` is the same for all looks."""

    smallest: int
    largest: int
    outline: Outline = field(compare=False)

    def of(self, digests: Iterable[Digest]) -> Mapping[Place, Tally]:
        """Return what some manifests of data files hold, by partition."""
        return self.merged(map(self._tallied, digests))

    def merged(self, tallies: Iterable[Mapping[Place, Tally]]) -> Mapping[Place, Tally]:
        """Return what several have together."""
        found: dict[Place, Tally] = {}
        for some in tallies:
            if not found:
                found = dict(some)
                continue
            for place, tally in some.items():
                known = found.get(place)
                found[place] = tally if known is None else self._together(known, tally)
        return found

    def _together(self, one: Tally, other: Tally) -> Tally:
        origins = one.origins if one.origins == other.origins else self.outline({*one.origins, *other.origins})
        oldest = min(one.oldest, other.oldest) if one.odd and other.odd else one.oldest + other.oldest
        return Tally(
            one.files + other.files,
            one.odd + other.odd,
            one.bytes + other.bytes,
            oldest,
            max(one.newest, other.newest),
            origins,
        )

    def _tallied(self, digest: Digest) -> Mapping[Place, Tally]:
        counts = [0] * len(digest.partitions)
        odd: dict[int, list[int]] = {}
        seen: list[set[int]] = [set() for _ in counts]
        for where, origin, size in digest.data():
            counts[where] += 1
            seen[where].add(origin)
            if not self.smallest <= size <= self.largest:
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
            found[digest.spec, partition] = Tally(counts[where], number, size, oldest, newest, origins)
        return found


_NOTHING = (0, 0, 0, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Bundle:
    """Tallies of several manifests or bundles, and what they are `of`."""

    of: tuple[Any, ...]
    tallies: Mapping[Place, Tally]

    def is_of(self, others: tuple[Any, ...]) -> bool:
        return len(self.of) == len(others) and all(map(is_, self.of, others))


@dataclass(frozen=True, kw_only=True, slots=True)
class Tallies:
    """The tallies of a table's manifests of data files, and how they came about."""

    how: Tallying | None = None
    small: Mapping[int, _Bundle] = field(default_factory=dict)
    large: Mapping[int, _Bundle] = field(default_factory=dict)

    def again(self, digests: Mapping[str, Digest], how: Tallying) -> Tallies:
        """Return those of `digests`, by the paths of their manifests; what has not changed is taken from here."""
        known = self if self.how == how else Tallies()
        bundles = _power_of_two(len(digests) // _IN_A_BUNDLE)
        sorted_in: dict[int, list[Digest]] = {}
        for path, digest in digests.items():
            sorted_in.setdefault(hash(path) % bundles, []).append(digest)
        small = {number: _bundled(tuple(some), known.small.get(number), how.of) for number, some in sorted_in.items()}
        groups: dict[int, list[_Bundle]] = {}
        for number, bundle in sorted(small.items()):
            groups.setdefault(number % _FAN, []).append(bundle)
        merge = partial(_merged, how)
        large = {number: _bundled(tuple(some), known.large.get(number), merge) for number, some in groups.items()}
        return Tallies(how=how, small=small, large=large)

    def total(self) -> Mapping[Place, Tally]:
        """Return what all manifests hold."""
        return {} if self.how is None else _merged(self.how, tuple(self.large.values()))


def _merged(how: Tallying, bundles: tuple[_Bundle, ...]) -> Mapping[Place, Tally]:
    return how.merged(bundle.tallies for bundle in bundles)


def _bundled(
    of: tuple[Any, ...], known: _Bundle | None, make: Callable[[tuple[Any, ...]], Mapping[Place, Tally]]
) -> _Bundle:
    return known if known is not None and known.is_of(of) else _Bundle(of=of, tallies=make(of))


def _power_of_two(least: int) -> int:
    return 1 << max(0, (least - 1).bit_length())
