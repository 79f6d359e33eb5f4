"""Text files are joined line by line. No line is read as values, so none can change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

from lakewarden.planners.formats.directory.options import FileFormat


class NotRewrittenError(Exception):
    """The files of a partition are not rewritten. The message says why. Others of the same run may be."""


_SPACE = 2**128
_LONGEST_LINE = 64 * 2**20
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def joined(files: Sequence[Path], kind: FileFormat, target: Path, *, target_size: int) -> list[Path]:
    """Write the lines of files into new ones of about `target_size` bytes below `target`, and return these, in order.

    Raises NotRewrittenError if the files may be something else than lines, each for itself.
    """
    end = b"\n"
    if kind is FileFormat.CSV:
        _refuse_headers(files)
        end = _end_of_lines(files)
    target.mkdir()
    made, size = list[Path](), target_size
    for file in files:
        if size >= target_size:
            made.append(target / f"part-{len(made):05d}")
            size = 0
        quotes = 0
        with made[-1].open("ab") as opened:
            for line in _lines(file):
                _refuse_strange(line, kind)
                quotes += line.count(b'"')
                if kind is FileFormat.CSV and _end_of(line) not in (b"", end):
                    raise NotRewrittenError("its lines end in two ways, with and without a carriage return")
                opened.write(line if line.endswith(b"\n") else line + end)
            size = opened.tell()
        if kind is FileFormat.CSV and quotes % 2:
            raise NotRewrittenError("a file has an odd number of quotation marks: the last one may be open")
    if _sums(files) != _sums(made):
        raise NotRewrittenError("the new files do not hold the lines of the old ones")
    return made


def _lines(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while line := opened.readline(_LONGEST_LINE):
            if len(line) == _LONGEST_LINE:
                raise NotRewrittenError("it holds a line of 64 MiB")
            yield line


def _end_of(line: bytes) -> bytes:
    """Return how a line ends; nothing for the last one of a file that does not end."""
    if line.endswith(b"\r\n"):
        return b"\r\n"
    return b"\n" if line.endswith(b"\n") else b""


def _end_of_lines(files: Sequence[Path]) -> bytes:
    """Return how the first line that ends does so."""
    ends = (_end_of(next(_lines(file), b"")) for file in files)
    return next(filter(None, ends), b"\n")


def _sums(files: Sequence[Path]) -> tuple[int, int]:
    """Return the number of lines, and a sum over all that does not depend on their order."""
    count = total = 0
    for file in files:
        for line in _lines(file):
            count += 1
            digest = blake2b(line.removesuffix(_end_of(line)), digest_size=16).digest()
            total = (total + int.from_bytes(digest, "big")) % _SPACE
    return count, total


def _refuse_headers(files: Sequence[Path]) -> None:
    """Raise NotRewrittenError if two files begin with the same line, whatever its case and its quotes. It looks like a
    header, and would be a row in the midst of others.
    """
    firsts = Counter(next(_lines(file), b"").strip().lower().replace(b'"', b"") for file in files)
    if any(count > 1 for line, count in firsts.items() if line):
        raise NotRewrittenError("several of its files begin with the same line, which looks like a header")


def _refuse_strange(line: bytes, kind: FileFormat) -> None:
    if b"\0" in line or line.startswith(_BYTE_ORDER_MARKS):
        raise NotRewrittenError(
            "it holds a file that is not text of single bytes, or begins with a mark of its encoding"
        )
    if b"\r" in line.removesuffix(_end_of(line)):
        raise NotRewrittenError("it holds a carriage return within a line, where some readers end the line")
    if kind is FileFormat.JSON and (text := line.strip()) and not (text.startswith(b"{") and text.endswith(b"}")):
        raise NotRewrittenError("it holds a line that is not a JSON object")
