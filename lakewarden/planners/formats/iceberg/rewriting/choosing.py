"""Which groups of a table a run rewrites, and in which order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakewarden.planners.formats.iceberg.options.service_options import RewriteOptions
from lakewarden.planners.formats.iceberg.rewriting.groups import Group


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The groups that could be rewritten: those that one run `takes`, those that are `left_alone` because of a writer,
    and those that are `left` for the next run.
    """

    takes: tuple[Group, ...]
    left_alone: tuple[Group, ...]
    left: tuple[Group, ...]


def choose(groups: Iterable[Group], hot: Iterable[str], options: RewriteOptions) -> Choice:
    """Return the `groups` that one run takes, the most fragmented first, until `max_files` or `max_bytes` are reached.
    A group with a `hot` partition is left alone. The first group may have more bytes than `max_bytes`.
    """
    avoided = frozenset(hot)
    takes: list[Group] = []
    left_alone: list[Group] = []
    left: list[Group] = []
    files = size = 0
    max_files, max_bytes = options.max_files, options.max_bytes
    for group in _most_fragmented_first(groups):
        if not avoided.isdisjoint(group.partitions):
            left_alone.append(group)
        elif files + group.files <= max_files and (not takes or size + group.bytes <= max_bytes):
            takes.append(group)
            files, size = files + group.files, size + group.bytes
        else:
            left.append(group)
    return Choice(takes=tuple(takes), left_alone=tuple(left_alone), left=tuple(left))


def _most_fragmented_first(groups: Iterable[Group]) -> Sequence[Group]:
    """Return the groups of the most fragmented partitions first. Among equals the older comes first. The groups of one
    partition follow each other.
    """
    all_groups = tuple(groups)
    opened: dict[frozenset[str], int] = defaultdict(int)
    oldest: dict[frozenset[str], int] = {}
    for group in all_groups:
        opened[group.partitions] += group.opened
        oldest[group.partitions] = min(group.oldest, oldest.get(group.partitions, group.oldest))
    return sorted(
        all_groups,
        key=lambda group: (
            -opened[group.partitions],
            oldest[group.partitions],
            sorted(group.partitions),
            group.oldest,
            -group.opened,
            group.keys,
        ),
    )
