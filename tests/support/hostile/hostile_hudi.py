"""Hostile Hudi tables: their files, names and numbers. Those with hostile plans are in `hostile_plans`."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

from tests.support.hostile import hostile_avro
from tests.support.hostile.hostile_table import Looks, Place, hostile
from tests.support.hudi.hudi_table import HudiTable, base_file, commit_content, log_file

# -- payloads


def _everywhere(table: HudiTable, content: bytes) -> None:
    """Put a payload in every place where one is read: a commit, each kind of plan, a savepoint, a clean."""
    table.commit_write(table.begin_write(), content=content)
    for action in ("compaction", "logcompaction", "clustering", "clean", "rollback"):
        table.put(f"{table.next_time()}.{action}.requested", content)
    table.complete(table.next_time(), "clean", content)
    table.complete(table.next_time(), "savepoint", content)
    table.complete(table.next_time(), "replacecommit", content)


def _payload(name: str, attacks: str, content: Callable[[Place], bytes]) -> None:
    def make(place: Place) -> None:
        _everywhere(place.hudi(), content(place))

    hostile("hudi", attacks, name=name)(make)


_payload(
    "avro_of_itself", "5 kB of Avro that holds itself: a crash of the C stack.", lambda _: hostile_avro.of_itself(5000)
)
_payload(
    "avro_of_itself_deeper",
    "Avro that holds itself deeper than any stack.",
    lambda place: hostile_avro.of_itself(place.scale.levels),
)
_payload("avro_of_empty_records", "2^60 records of no bytes in 120 bytes.", lambda _: hostile_avro.of_empty_records())
_payload("avro_of_nulls", "An array of 2^60 nulls.", lambda _: hostile_avro.of_nulls())
_payload("avro_of_negative_counts", "An array with a negative count.", lambda _: hostile_avro.of_negative_counts())
_payload(
    "avro_of_zeros",
    "Gigabytes of zeros, deflated to some megabytes.",
    lambda place: hostile_avro.of_zeros(place.scale.inflated),
)
_payload("avro_of_a_long_string", "A text that says it is 2^60 bytes long.", lambda _: hostile_avro.of_a_long_string())
_payload(
    "avro_of_doubled_names", "60 records of two each: 2^60 fields in 3 kB.", lambda _: hostile_avro.of_doubled_names()
)
_payload(
    "avro_of_a_deep_schema",
    "A schema of arrays of arrays, deeper than Python goes.",
    lambda place: hostile_avro.of_a_deep_schema(place.scale.levels),
)
_payload("avro_without_a_schema", "A schema that is not JSON.", lambda _: hostile_avro.of_a_schema_that_is_none())
_payload("avro_of_an_unknown_codec", "An unknown codec.", lambda _: hostile_avro.of_an_unknown_codec())
_payload("avro_cut_off", "A file that ends within its header.", lambda _: hostile_avro.cut_off())
_payload("json_deep", "JSON deeper than Python goes.", lambda place: b"[" * place.scale.levels)
_payload(
    "json_deep_record",
    "A record of records of records, closed as it should be.",
    lambda place: b'{"a":' * place.scale.levels + b"1" + b"}" * place.scale.levels,
)
_payload("json_no_record", "A text where a record should be.", lambda _: b'"\\ud800"')

# -- numbers


def _numbers(name: str, attacks: str, *, size: str) -> None:
    def make(place: Place) -> None:
        table = place.hudi()
        stats = {"p0": [base_file("a-0", "20260101000000000"), log_file("a-0", "20260101000000000")]}
        content = commit_content(stats).replace(b'"fileSizeInBytes": 100', f'"fileSizeInBytes": {size}'.encode())
        table.commit_write(table.begin_write(), content=content)

    hostile("hudi", attacks, name=name)(make)


_numbers("size_of_400_digits", "A log file of 10^400 bytes: no float holds that.", size=f"1{'0' * 400}")
_numbers("size_of_5000_digits", "A number with more digits than Python reads.", size=f"1{'0' * 5000}")
_numbers("size_negative", "A log file of less than nothing.", size="-100000000000000000000")
_numbers("size_infinite", "A size that is infinite.", size="1e999")
_numbers("size_not_a_number", "A size that is not a number.", size="NaN")
_numbers("size_as_text", "A size that is a text.", size='"\\u001b[31m12"')


@hostile(
    "hudi",
    "Instants of the years 0 and 9999, of month 13: no calendar holds them, and no zone may be reckoned with.",
    Looks.SHOWN,
)
def years_beyond(place: Place) -> None:
    table = place.hudi()
    for time in ("00000000000000000", "00010101000000000", "99991231235959999", "20261332250000000"):
        table.put(f"{time}.deltacommit.requested")
        table.put(f"{time}.deltacommit.inflight")
        table.put(f"{time}_99991231235959999.deltacommit", b"{}")
        table.beat(time)


# -- properties


def _properties(name: str, attacks: str, *, lines: Callable[[Place], str], looks: Looks = Looks.FAILING) -> None:
    def make(place: Place) -> None:
        file = place.hudi().home / "hoodie.properties"
        file.write_bytes(file.read_bytes() + lines(place).encode("latin-1"))

    hostile("hudi", attacks, looks, name=name)(make)


_properties(
    "properties_continued",
    "Two million lines that continue each other.",
    lines=lambda place: "comment=" + "x\\\n" * place.scale.lines,
    looks=Looks.SHOWN,
)
_properties(
    "properties_of_backslashes",
    "One line of backslashes.",
    lines=lambda place: "comment=" + "\\" * place.scale.lines,
    looks=Looks.SHOWN,
)
_properties(
    "properties_of_keys",
    "A million keys.",
    lines=lambda place: "".join(f"k{number}=\n" for number in range(place.scale.lines // 2)),
    looks=Looks.SHOWN,
)
_properties(
    "timeline_of_etc",
    "A timeline that lies in /etc.",
    lines=lambda _: "hoodie.timeline.path=../../../../../../../etc\n",
)
_properties("timeline_absolute", "A timeline at an absolute path.", lines=lambda _: "hoodie.timeline.path=/etc\n")
_properties(
    "timeline_of_another",
    "A timeline that is another table's.",
    lines=lambda place: f"hoodie.timeline.path=../../../{place.foreign.name}/.hoodie/timeline\n",
)
_properties(
    "base_path_of_another",
    "A base path that is another table's: Hudi's client would work there.",
    lines=lambda place: f"hoodie.base.path={place.foreign}\n",
    looks=Looks.SHOWN,
)
_properties(
    "history_of_another",
    "A timeline whose history is written, and merged, in another table.",
    lines=lambda place: f"hoodie.timeline.history.path=../../../../{place.foreign.name}\n",
    looks=Looks.SHOWN,  # told by whatever would write there
)
_properties(
    "timeline_with_a_nul", "A timeline with a NUL in its path.", lines=lambda _: "hoodie.timeline.path=a\\u0000b\n"
)
_properties(
    "version_of_400_digits", "A table version with 400 digits.", lines=lambda _: f"hoodie.table.version={'9' * 400}\n"
)
_properties(
    "version_of_5000_digits",
    "A version with more digits than Python reads.",
    lines=lambda _: f"hoodie.table.version={'9' * 5000}\n",
)
_properties(
    "version_superscript", "A version of digits that are not numbers.", lines=lambda _: "hoodie.table.version=\\u00b2\n"
)

_SHOWN = {
    "name_with_a_surrogate": ("A lone surrogate, which no UTF-8 holds, in a name.", "\\ud800trips"),
    "name_with_escapes": (
        "A terminal's escape sequences in a name.",
        "\\u001b]0;owned\\u0007\\u001b[2J\\u001b[31mtrips",
    ),
    "name_with_controls": (
        "Line ends in a name: forged lines of a log.",
        "a\\nERROR the store is gone\\r\\u0085b\\u2028c",
    ),
    "name_with_bidi": ("A name that reads from right to left.", "\\u202egpj.\\u2066spirt\\u2069"),
    "name_as_markup": ("A name in the markup of rich, and of HTML.", "[bold red]trips[/] <script>alert(1)</script>"),
    "name_of_a_label": ("A name that ends a label of a metric.", 'a"} 1\\nlakewarden_up{x="\\\\'),
    "name_without_end": ("A name of a megabyte.", "n" * 2**20),
}
for _name, (_attacks, _shown) in _SHOWN.items():
    _properties(_name, _attacks, lines=lambda _, shown=_shown: f"hoodie.table.name={shown}\n", looks=Looks.SHOWN)  # type: ignore[misc]


@hostile("hudi", "A terminal's escape sequences in what is reported of an unknown version.", Looks.SHOWN)
def version_with_escapes(place: Place) -> None:
    file = place.hudi().home / "hoodie.properties"
    file.write_text(file.read_text() + "hoodie.table.version=\\u001b[31m9\\u0007\n")


# -- files that are none


def _replaced(name: str, attacks: str, part: str, by: Callable[[Path, Place], None]) -> None:
    """Take in a table with something else in the place of a file or a folder below `.hoodie`."""

    def make(place: Place) -> None:
        path = place.hudi().home / part
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        by(path, place)

    hostile("hudi", attacks, name=name)(make)


def _fifo(path: Path, _place: Place) -> None:
    os.mkfifo(path)


def _link_to(part: str) -> Callable[[Path, Place], None]:
    return lambda path, place: path.symlink_to(place.foreign / ".hoodie" / part)


_replaced("properties_fifo", "A FIFO as hoodie.properties: opening it waits for ever.", "hoodie.properties", _fifo)
_replaced("timeline_fifo", "A FIFO where the timeline's folder should be.", "timeline", _fifo)
_replaced("home_fifo", "A FIFO where .hoodie should be.", "", _fifo)
_replaced(
    "properties_device",
    "A link to zeros without end as hoodie.properties.",
    "hoodie.properties",
    lambda path, _: path.symlink_to("/dev/zero"),
)
_replaced(
    "links_in_a_circle", "A timeline that is a link to itself.", "timeline", lambda path, _: path.symlink_to(path)
)
_replaced("timeline_linked_out", "A timeline that is a link to another table's.", "timeline", _link_to("timeline"))
_replaced(
    "metadata_linked_out",
    "A metadata table that is a link to another table's: commits are written there, too.",
    "metadata",
    _link_to(""),
)
_replaced("home_linked_out", "A .hoodie that is a link to another table's.", "", _link_to(""))


@hostile("hudi", "FIFOs as instants.")
def instants_fifo(place: Place) -> None:
    table = place.hudi()
    for name in ("clean.requested", "compaction.requested", "rollback.requested"):
        os.mkfifo(table.timeline / f"{table.next_time()}.{name}")
    os.mkfifo(table.timeline / f"{table.next_time()}_{table.next_time()}.deltacommit")


@hostile("hudi", "A FIFO where the table should be.")
def table_fifo(place: Place) -> None:
    os.mkfifo(place.folder)


@hostile("hudi", "FIFOs as heartbeats of writes in flight.", Looks.SHOWN)
def heartbeats_fifo(place: Place) -> None:
    table = place.hudi()
    os.mkfifo(table.home / ".heartbeat" / table.begin_write(heartbeat=False))


@hostile("hudi", "Sockets as instants and as hoodie.properties.")
def instants_socket(place: Place) -> None:
    table = place.hudi()
    (table.home / "hoodie.properties").unlink()
    for path in (table.timeline / f"{table.next_time()}.clean.requested", table.home / "hoodie.properties"):
        _socket_at(path)


@hostile("hudi", "Links to devices that never end, and to files of the kernel that block.")
def instants_device(place: Place) -> None:
    table = place.hudi()
    for device in ("/dev/zero", "/dev/random", "/dev/tty", "/proc/kmsg"):
        (table.timeline / f"{table.next_time()}.clean.requested").symlink_to(device)


@hostile("hudi", "Instants that are links to each other.", Looks.SHOWN)
def instants_linked_in_a_circle(place: Place) -> None:
    table = place.hudi()
    here, there = (table.timeline / f"{table.next_time()}.clean.requested" for _ in range(2))
    here.symlink_to(there)
    there.symlink_to(here)


@hostile("hudi", "Instants that are links to files of the machine.")
def instants_linked_out(place: Place) -> None:
    table = place.hudi()
    for target in ("/etc/passwd", "/proc/self/environ", "/proc/self/mem"):
        (table.timeline / f"{table.next_time()}.clean.requested").symlink_to(target)


# -- many


@hostile("hudi", "150,000 instants in one folder, more than a turn has time for.", Looks.SHOWN)
def many_instants(place: Place) -> None:
    table = place.hudi()
    _touch_many(table.timeline, place.scale.entries, "2025{:013}_2025{:013}.deltacommit")


@hostile("hudi", "150,000 pending plans, each of them to be read.")
def many_plans(place: Place) -> None:
    table = place.hudi()
    _touch_many(table.timeline, place.scale.entries, "2025{:013}.clean.requested")


@hostile(
    "hudi",
    "150,000 files that are not instants beside the timeline's, with escape sequences in their names.",
    Looks.SHOWN,
)
def many_strangers(place: Place) -> None:
    table = place.hudi()
    _touch_many(table.timeline, place.scale.entries, "\x1b[31m{}\n")


@hostile("hudi", "150,000 heartbeats.", Looks.SHOWN)
def many_heartbeats(place: Place) -> None:
    table = place.hudi()
    _touch_many(table.home / ".heartbeat", place.scale.entries, "2025{:013}")


@hostile("hudi", "File names of bytes that are not UTF-8.", Looks.SHOWN)
def names_that_are_no_text(place: Place) -> None:
    table = place.hudi()
    for name in (b"\xff\xfe.clean.requested", b"20260101\xff.deltacommit", b"\xed\xa0\x80"):
        os.close(os.open(os.path.join(os.fsencode(table.timeline), name), os.O_CREAT, 0o600))  # noqa: PTH118 - bytes


def _touch_many(folder: Path, count: int, name: str) -> None:
    base = os.open(folder, os.O_RDONLY)
    try:
        for number in range(count):
            os.close(os.open(name.format(number, number), os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=base))
    finally:
        os.close(base)


def _socket_at(path: Path) -> None:
    """Leave a socket there. Its address may be too long, so it is bound from its folder."""
    with socket.socket(socket.AF_UNIX) as listener:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            listener.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
