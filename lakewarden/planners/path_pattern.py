"""A pattern of paths: which folders fit it, and which are worth searching."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import FileEntry
from lakewarden.planners.settings import shown
from lakewarden.planners.storage import canonical_location
from lakewarden.planners.storage.locations import is_in_catalog, spelled_location

ANY_DEPTH = "**"
_WILD = re.compile(r"[*?\[]")
_HIDDEN = (".", "_")
_NO_NAMES = ("", ".", "..")

Places = frozenset[int]
"""How far into a pattern a folder may be: the numbers of the parts that come next. Empty: nothing below it can fit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """A folder to search next. `refused` says why its address is one that no table can have. None if a table can."""

    name: str
    location: str
    places: Places
    refused: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PathPattern:
    """`root` is the part without wildcards; `parts` are the names below it that a path must fit."""

    root: str
    parts: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> PathPattern:
        """Read a pattern without touching a file. Raises ValueError if it is none, or could mean a whole store."""
        names = text.rstrip("/").split("/")
        first = next((number for number, name in enumerate(names) if _WILD.search(name)), len(names))
        parts = tuple(name for name in names[first:] if name not in ("", "."))
        for name in parts:
            if ANY_DEPTH in name and name != ANY_DEPTH:
                raise ValueError(f"{shown(text)} has ** within a name: it stands for whole folders")
            if name == "..":
                raise ValueError(f"{shown(text)} climbs with '..'")
            if "[" in name:
                raise ValueError(f"{shown(text)} has a [: the wildcards are *, ? and **")
        try:
            root = spelled_location("/".join(names[:first]) or text[:1])
        except PermanentError as wrong:
            raise ValueError(f"{shown(text)} must begin with a place, and not with a wildcard: {wrong}") from wrong
        if root == "/":
            raise ValueError(f"{shown(text)} means the whole file system: name a folder before the first wildcard")
        if is_in_catalog(root):
            raise ValueError(f"{shown(text)} is a name in a catalog, not a path")
        return cls(root=root, parts=parts)

    def resolved(self) -> PathPattern:
        """Return it with the links of its root resolved, which touches files."""
        return replace(self, root=canonical_location(self.root))

    @property
    def start(self) -> Places:
        """Return where in the pattern its root is."""
        return self._with_skipped({0})

    def below(self, places: Places, name: str) -> Places:
        """Return where in the pattern the folder `name` is, in a folder that is at `places`."""
        return self._with_skipped(
            place if self.parts[place] == ANY_DEPTH else place + 1
            for place in places
            if place < len(self.parts) and _fits(name, self.parts[place])
        )

    def is_fitted(self, places: Places) -> bool:
        """Whether a folder that is at `places` fits the whole pattern."""
        return len(self.parts) in places

    def goes_on(self, places: Places) -> bool:
        """Whether a folder below one that is at `places` may fit."""
        return any(place < len(self.parts) for place in places)

    def fits(self, location: str) -> bool:
        """Whether a folder fits the whole pattern. The pattern's root must be spelled as the folder is."""
        if location != self.root and not location.startswith(f"{self.root}/"):
            return False
        places = self.start
        for name in location.removeprefix(self.root).split("/"):
            places = self.below(places, name) if name else places
        return self.is_fitted(places)

    def ways(
        self, location: str, places: Places, entries: Sequence[FileEntry], exclude: Sequence[PathPattern]
    ) -> Iterator[Way]:
        """Yield the folders among the entries of a folder that may fit, or lead to one that fits, in order of name.

        A folder behind a link is none of them. Links may lead anywhere, also in circles, and their targets have
        addresses of their own.
        """
        for entry in sorted(entries, key=lambda entry: entry.name):
            if not entry.is_folder or entry.name in _NO_NAMES or "/" in entry.name:
                continue
            below = self.below(places, entry.name)
            inside = f"{location}/{entry.name}"
            if not below or any(pattern.fits(inside) for pattern in exclude):
                continue
            try:
                its_own = canonical_location(inside) == inside
            except PermanentError as wrong:
                yield Way(name=entry.name, location=shown(inside), places=below, refused=str(wrong))
                continue
            if its_own:
                yield Way(name=entry.name, location=inside, places=below)

    def _with_skipped(self, places: Iterable[int]) -> Places:
        """Return the places, and those behind each ** there, because ** may stand for no folder at all."""
        all_places: set[int] = set()
        for place in places:
            all_places.add(place)
            while place < len(self.parts) and self.parts[place] == ANY_DEPTH:
                place += 1  # noqa: PLW2901 - it walks on from where it is
                all_places.add(place)
        return frozenset(all_places)


def _fits(name: str, part: str) -> bool:
    if part == ANY_DEPTH:
        return not name.startswith(_HIDDEN) and "=" not in name
    if name.startswith(_HIDDEN) and part[0] != name[0]:
        return False
    return fnmatchcase(name, part)
