"""What holds snapshots, or keeps a position in them: tags, branches, consumers and changelogs of their own.

Source: `org.apache.paimon.utils.TagManager`, `BranchManager` and `ChangelogManager`, `tag.SuccessFileTagCallback`, and
`consumer.ConsumerManager` of Paimon 1.3.1. A tag is a snapshot in a file of its own, a branch is a
folder like the table's, and a consumer is a file with the next snapshot that it reads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakewarden.planners.decoding.numbers import count
from lakewarden.planners.formats.paimon.metadata.files import MALFORMED, corrupt, json_object
from lakewarden.planners.ports import FileEntry
from lakewarden.planners.settings import shown

TAG = re.compile(r"tag-(.{1,255})", re.DOTALL)
BRANCH = re.compile(r"branch-(.{1,255})", re.DOTALL)
CONSUMER = re.compile(r"consumer-(.{1,255})", re.DOTALL)
CHANGELOG = re.compile(r"changelog-([0-9]{1,10})")

_SUCCESS_FILES = "tag-success-file"
"""A folder beside the tags, with a file for each new tag (`tag.create-success-file`). No file of the table is in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tag:
    """A tag, and the snapshot that it is."""

    name: str
    snapshot: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch:
    """A branch, and its newest snapshot; None where it has none of its own."""

    name: str
    snapshot: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Consumer:
    """A streaming reader, and the snapshot that it reads next."""

    name: str
    next: int


@dataclass(frozen=True, kw_only=True, slots=True)
class References:
    """All of them. `changelogs` are the numbers of the changelogs that outlive their snapshots, `left` says how many
    of each kind were too many to be read.
    """

    tags: tuple[Tag, ...] = ()
    branches: tuple[Branch, ...] = ()
    consumers: tuple[Consumer, ...] = ()
    changelogs: tuple[int, ...] = ()
    left: int = 0


def is_of_success_files(entry: FileEntry) -> bool:
    """Whether an entry of the folder of tags is that of their success files. A tag of this name is a file."""
    return entry.is_folder and entry.name == _SUCCESS_FILES


def parse_consumer(content: bytes, *, file: str, name: str) -> Consumer:
    """Return where a consumer stands. Raises CorruptMetadataError."""
    raw = json_object(content, file=file, what="consumer")
    try:
        return Consumer(name=name, next=count(raw["nextSnapshot"], "nextSnapshot"))
    except MALFORMED as wrong:
        raise corrupt(file, "consumer", wrong) from wrong


def what_names_it(file: str) -> str:
    """Return in words what the file of a snapshot, a tag or a changelog is, and what to do if a file that it names is
    gone for good.
    """
    _, is_of_a_branch, below = file.rpartition("/branch/")
    name, branch = file.rpartition("/")[2], below.partition("/")[0].removeprefix("branch-")
    if TAG.fullmatch(name):
        of = f" of the branch {shown(branch)}" if is_of_a_branch else ""
        return f"The tag {shown(name.removeprefix('tag-'))}{of} names it, and cannot be read without it: delete the tag"
    if is_of_a_branch:
        return (
            f"{name} of the branch {shown(branch)} names it: let that snapshot of the branch expire, or drop the branch"
        )
    return f"{name} names it. If an expiry was cut off, let it run again: clean, or Paimon's expire_snapshots"
