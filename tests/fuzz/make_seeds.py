"""``python -m tests.fuzz.make_seeds``: the inputs that fuzzing begins with, from what servers really sent.

In: ``tests/data/pgoutput`` and the corpus beside the decoder's tests. Out: ``seeds/<target>.hex``, one
input a line. Of each kind of message the shortest ones are kept: long values are all alike.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from struct import pack

from tests.fuzz.receiver import SOURCE, TS_MS
from tests.fuzz.targets import COLUMNS_MAX, SEEDS, TARGETS
from tests.fuzz.typed_writers import binary_writers, one_field, typed_writers
from tests.producer.pgoutput import corpus, transcripts
from walbridge.producer.pgoutput.decoder import decode_message, decode_tuple
from walbridge.producer.pgoutput.messages import Insert, Relation, Unsent
from walbridge.producer.relations.relation_cache import DataTopic, RelationCache
from walbridge.producer.relations.table_description import describe
from walbridge.schemas.avro.codec import CONTROL_RECORDS
from walbridge.schemas.avro.framing import SINGLE_OBJECT
from walbridge.schemas.control.cut import Barrier, Cut, Epoch, PartitionRange, TableChanges, encode_cut
from walbridge.schemas.control.metadata_record import TypeRecord, encode_metadata
from walbridge.schemas.control.progress_record import Progress, Split, encode_progress
from walbridge.schemas.control.table_progress import TableCopy, TableProgress, encode_table
from walbridge.schemas.control.table_request import TableRequest, encode_request
from walbridge.schemas.pg_types import TypeFacts
from walbridge.schemas.position import Lsn, Position

BYTES_MAX = 1_500
OF_A_KIND = 4
SESSION_BYTES_MAX = 1_000


def _shortest(payloads: Iterable[bytes], kind: slice = slice(0, 1)) -> list[bytes]:
    """A few of each kind, as their first bytes tell it, of different lengths."""
    kinds: dict[bytes, dict[int, bytes]] = defaultdict(dict)
    for payload in sorted(set(payloads)):
        if len(payload) <= BYTES_MAX:
            kinds[payload[kind]].setdefault(len(payload), payload)
    return [of_kind[size] for _, of_kind in sorted(kinds.items()) for size in sorted(of_kind)[:OF_A_KIND]]


def _streams() -> Iterator[bytes]:
    """The beginnings of sessions."""
    for path in transcripts.paths():
        joined = b""
        for payload, _ in transcripts.load(path):
            if len(joined) + len(payload) > SESSION_BYTES_MAX:
                break
            joined += len(payload).to_bytes(2, "big") + payload
        yield joined


def _rows() -> Iterator[list[bytes | None]]:
    for payload in corpus.load():
        message = decode_message(payload)
        if isinstance(message, Insert) and len(message.new) <= BYTES_MAX:
            fields = decode_tuple(message.new)
            yield [None if isinstance(field, Unsent) else field for field in fields if not hasattr(field, "data")]


_COPY_ESCAPES = {b"\\": b"\\\\", b"\t": b"\\t", b"\n": b"\\n", b"\r": b"\\r"}


def _copy_lines() -> Iterator[bytes]:
    for row in _rows():
        values = [rb"\N" if each is None else each for each in row[:COLUMNS_MAX]]
        for plain, escaped in _COPY_ESCAPES.items():
            values = [each if each == rb"\N" else each.replace(plain, escaped) for each in values]
        yield bytes([len(values)]) + b"\t".join(values) + b"\n"
    yield b"\1" + rb"\b\f\v\101\x41\x4" + b"\n"
    yield b"\0\n"


_TEXTS = (
    b"t", b"0", b"-9223372036854775808", b"NaN", b"-Infinity", b"1.1754944e-38", b"7.038531e-26", b"12.50", b"-0.01",
    b"\xc3\xa9", b"\\x00ff", b"2024-02-29", b"0044-03-15 BC", b"2024-02-29 23:59:59.123456", b"infinity",
    b"2024-02-29 23:59:59.123456+00", b"{}", b'{1,NULL,"a\\"b",c}', b"[0:1]={1,2}", b"{{1},{2}}", b"{t,f}",
    b"{12.50,NaN}", b"{2024-02-29,infinity}", b'{"2024-02-29 23:59:59"}', b'"a"=>"1", "b"=>NULL', b"[1,2.5,-3e-45]",
)  # fmt: skip


def _values() -> Iterator[bytes]:
    """Every text of this list for every type that takes it."""
    for at, (writer, _) in enumerate(typed_writers()):
        for text in _TEXTS:
            try:
                writer.copied(one_field(b"t", text), SOURCE, writer.snapshot_source, TS_MS)
            except Exception:
                continue
            yield bytes([at]) + text


_BINARY = (
    b"", b"\0", b"\1", b"a", b"\1{}", b"\xc3\xa9", b"\0\1", b"\0\0\0\7", b"\x80\0\0\0", b"\x7f\xff\xff\xff",
    *map(bytes, (4, 6, 8, 12, 16, 24, 32)), b"\x7f" + b"\xff" * 7, b"\2 \0\4\x7f\0\0\1", b"\3\x80\0\x10" + bytes(16),
    b"\0\0\0\5\xa8", pack(">8h", 2, 0, 0, 2, 12, 5000, 0, 0)[:12], pack(">4H", 0, 0, 0xC000, 0),
    pack(">hhHHh", 1, -1, 0x4000, 2, 5), pack(">Bidd", 1, 1, 1.5, -2.5), pack(">idd", 1, 0.0, 1e300),
    pack(">iii", 0, 0, 23), pack(">7i", 1, 0, 23, 1, 1, 4, 7), pack(">6i", 1, 1, 23, 1, 1, -1),
    pack(">7i", 1, 0, 23, 1, 0, 4, 7), pack(">9i", 2, 0, 23, 1, 1, 1, 1, 4, 9), pack(">iIiiIi", 2, 23, 4, 7, 1007, -1),
    pack(">BiQiQ", 2, 8, 0, 8, 0), pack(">ii", 1, 1) + b"\1", pack(">ii", 1, 1) + b"a" + pack(">i", -1),
    pack(">HHff", 2, 0, 1.5, -0.0), pack(">HHee", 2, 0, 1.5, -0.0), pack(">iiiif", 9, 1, 0, 3, 1.5),
    pack(">i", 1) + b"word\0" + pack(">HH", 1, 1), pack(">i", 1) + b"\1\0\0word\0", pack(">iQQQ", 1, 5, 9, 7),
    pack(">IH", 3, 4),
)  # fmt: skip


def _binary_values() -> Iterator[bytes]:
    """Every value of this list for every type that takes it."""
    for at, (writer, _) in enumerate(binary_writers()):
        for data in _BINARY:
            try:
                writer.copied(one_field(b"b", data), SOURCE, writer.snapshot_source, TS_MS)
            except Exception:
                continue
            yield bytes([at]) + data


def _control_records() -> Iterator[bytes]:
    cache, at = RelationCache("p"), Position(Lsn(0x100), 3)
    relations = [message for message in map(decode_message, corpus.load()) if isinstance(message, Relation)]
    for relation in relations:
        described = describe(relation, None, {})
        record = cache.version_of(described, DataTopic("p.public.t", 3))
        yield _control("Relation", encode_metadata(record))
    framed = replace(record, value_registry_id=7, key_registry_id=3)
    yield _control("Relation2", encode_metadata(framed))
    columns = (replace(record.table.columns[0], missing_value="7"), *record.table.columns[1:])
    yield _control("Relation3", encode_metadata(replace(record, table=replace(record.table, columns=columns))))
    yield _control("Relation4", encode_metadata(replace(record, is_json=True)))
    facts = TypeFacts(600_001, "public", "mood", "e", ("sad", "ok"), None, None, (("a", 23),))
    yield _control("Type", encode_metadata(TypeRecord(facts, 2)))
    epoch = Epoch("7000000000000000001", 1, "walbridge", 0x100)
    changes = TableChanges(
        16_385, "p.public.t", ("00" * 8,), 2, (Barrier("shape", at, "00" * 8), Barrier("dropped", at))
    )
    ranges = (PartitionRange("p.public.t", 0, 5, 7, 2),)
    yield _control("Cut", encode_cut(Cut(epoch, 7, 0x100, 0x200, 0x180, 10**15, 1, True, 3, ranges, (changes,))))
    progress = Progress("streaming", epoch.system_id, 1, epoch.slot, "shop", Lsn(0x100), options={"proto_version": "1"})
    yield _control("Progress", encode_progress(progress))
    split = Split(Lsn(0x300), 7, 5, 6, "00" * 16)
    yield _control("Progress", encode_progress(Progress("copying", "7", 1, "s", "shop", split=split)))
    copied = TableCopy(Lsn(0x100), ("7", "a"), 1000, 10**6, 3, shape="5f", listed={b"k": b"row"})
    copying = TableProgress(1, "copying", "p.public.t", "0rders_0", "*", copy=copied)
    for table in (copying, TableProgress(2, "stale", since=Lsn(0x300), why="added after the copy")):
        yield _control("TableProgress2", encode_table(table))
    yield _control("TableRequest", encode_request(TableRequest("copy", 16_385, 10**15)))


def _control(name: str, encoded: bytes) -> bytes:
    return bytes([CONTROL_RECORDS.index(name)]) + encoded[SINGLE_OBJECT.body_at :]


def _main() -> None:
    payloads = [
        payload for path in transcripts.paths() for payload, told in transcripts.load(path) if "block_xid" not in told
    ]
    made = {
        "frame": [b"w" + bytes(24) + payload for payload in _shortest(payloads)[::8]] + [b"k" + bytes(16) + b"\1"],
        "message": _shortest(payloads),
        "stream": list(dict.fromkeys(_streams())),
        "change": [each for each in _shortest(corpus.load(), slice(0, 5)) if each[:1] in (b"I", b"U", b"D")],
        "copy_line": list(dict.fromkeys(islice(_copy_lines(), 40))),
        "value": list(_values()),
        "binary_value": list(_binary_values()),
        "control_record": sorted(set(_control_records()), key=len)[:40],
    }
    assert made.keys() == TARGETS.keys() - {"event", "value_schema"}
    SEEDS.mkdir(exist_ok=True)
    for name, inputs in made.items():
        (SEEDS / f"{name}.hex").write_text("".join(f"{each.hex()}\n" for each in inputs))
        print(f"{name}: {len(inputs)} seeds, {sum(map(len, inputs)):,} bytes")


if __name__ == "__main__":
    _main()
