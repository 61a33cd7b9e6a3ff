"""What is fuzzed: a table of functions that take any bytes and return, or break a promise.

The promise is the same of each: a value, or one of the errors that decoding may raise, and nothing
else; and what was accepted means something: it is read back, by another way where there is one.
A new parser is one line of ``TARGETS`` and a file of seeds.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz.receiver import SOURCE, TS_MS, Receiver, expect_readable
from tests.fuzz.typed_writers import TypedWriter, binary_writers, one_field, typed_writers
from tests.producer.pgoutput import corpus as recorded
from tests.producer.pgoutput.frames import decode_frame
from tests.producer.pgoutput.stream_decoder import StreamDecoder
from walbridge.producer.encoding.record import plain_tails
from walbridge.producer.pgoutput.copy_text import tuple_of_line
from walbridge.producer.pgoutput.decoder import DECODERS, decode_message, decode_tuple
from walbridge.producer.pgoutput.messages import Message
from walbridge.producer.pgoutput.tuple_data import encode_tuple
from walbridge.schemas.avro.codec import CONTROL_RECORDS, control_schema, decode_body, schema_id
from walbridge.schemas.avro.framing import SINGLE_OBJECT, prefix_of
from walbridge.schemas.control.cut import decode_cut, encode_cut
from walbridge.schemas.control.metadata_record import RelationRecord, decode_metadata, encode_metadata
from walbridge.schemas.control.progress_record import Progress, decode_progress, encode_progress
from walbridge.schemas.control.table_progress import FORMAT_VERSION, decode_table, encode_table
from walbridge.schemas.control.table_request import decode_request, encode_request
from walbridge.schemas.errors import OperatorError, ProtocolError

SEEDS = Path(__file__).parent / "seeds"
COLUMNS_MAX = 8


def frame(data: bytes) -> None:
    """A frame of CopyBoth."""
    decode_frame(data)


def message(data: bytes) -> None:
    """One message of any version, its tuples included."""
    _open(decode_message(data, DECODERS))


def stream(data: bytes) -> None:
    """Messages of one session: what a payload is depends on those before it."""
    decoder = StreamDecoder()
    for payload in pieces(data):
        with contextlib.suppress(ProtocolError):
            _open(decoder.decode(payload)[1])


def pieces(data: bytes) -> Iterator[bytes]:
    """A session is its payloads, each behind its length of two bytes."""
    at = 0
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        yield data[at + 2 : end]
        at = end


def _open(found: Message) -> None:
    for name in ("new", "key", "old"):
        if (data := getattr(found, name, None)) is not None:
            fields = decode_tuple(data)
            assert decode_tuple(encode_tuple(list(fields))) == fields


def change(data: bytes) -> None:
    """A change of a known relation, to the records that it becomes."""
    receiver = _receiver()
    for record in receiver.records(decode_message(data)):
        receiver.expect_readable(record)


@cache
def _receiver() -> Receiver:
    return Receiver(recorded.load())


def copy_line(data: bytes) -> None:
    """A line of COPY, of up to ``COLUMNS_MAX`` columns: the first byte says how many."""
    count = data[0] % (COLUMNS_MAX + 1) if data else 0
    assert len(decode_tuple(tuple_of_line(data[1:], count))) == count


def value(data: bytes) -> None:
    """A value's text, of the type that the first byte chooses."""
    _value(typed_writers(), b"t", data)


def binary_value(data: bytes) -> None:
    """The same in the type's binary format; one of a composite may name a type that no catalogue has."""
    _value(binary_writers(), b"b", data)


def _value(writers: Sequence[TypedWriter], kind: bytes, data: bytes) -> None:
    """Both encoders write the same, or both refuse."""
    writer, schema = writers[data[0] % len(writers) if data else 0]
    row, rest = one_field(kind, data[1:]), plain_tails(TS_MS)["r"]
    general = _tried(lambda: writer.copied(row, SOURCE, writer.snapshot_source, TS_MS).value)
    plain = _tried(lambda: writer.plain(row, 0, writer.snapshot_source, SOURCE.encoded, -1, rest) or (None, None))
    assert (general is None) == (plain is None)
    if general is None or plain is None:
        return
    assert plain[1] in (None, general)
    expect_readable(general, schema)


def _tried(encode: Callable[[], Any]) -> Any:
    try:
        return encode()
    except ProtocolError:
        return None


def _of_the_slot(data: bytes) -> Progress:
    """A progress as it is written now: one of format 1 says more, which goes into records of tables."""
    return replace(decode_progress(data), tables={}, format_version=FORMAT_VERSION)


_AGAIN: dict[str, Callable[[bytes], object]] = {
    "Cut": lambda data: decode_cut(encode_cut(decode_cut(data))) == decode_cut(data),
    "Progress": lambda data: decode_progress(encode_progress(_of_the_slot(data))) == _of_the_slot(data),
    "TableProgress": lambda data: decode_table(encode_table(decode_table(data))) == decode_table(data),
    "TableProgress2": lambda data: decode_table(encode_table(decode_table(data))) == decode_table(data),
    "TableRequest": lambda data: decode_request(encode_request(decode_request(data))) == decode_request(data),
    "TableRequest2": lambda data: decode_request(encode_request(decode_request(data))) == decode_request(data),
    "TableRequest3": lambda data: decode_request(encode_request(decode_request(data))) == decode_request(data),
    "Relation": lambda data: decode_metadata(encode_metadata(decode_metadata(data))) == decode_metadata(data),
    "Relation2": lambda data: decode_metadata(encode_metadata(decode_metadata(data))) == decode_metadata(data),
    "Relation3": lambda data: decode_metadata(encode_metadata(decode_metadata(data))) == decode_metadata(data),
    "Relation4": lambda data: decode_metadata(encode_metadata(decode_metadata(data))) == decode_metadata(data),
    "Type": lambda data: decode_metadata(encode_metadata(decode_metadata(data))) == decode_metadata(data),
}


def control_record(data: bytes) -> None:
    """The body of a control record, of the kind that the first byte chooses; written again it reads the same."""
    name = CONTROL_RECORDS[data[0] % len(CONTROL_RECORDS) if data else 0]
    assert _AGAIN[name](_head(name) + data[1:])


def value_schema(data: bytes) -> None:
    """The JSON in a Relation record, from which columns get their types."""
    altered = replace(_relations()[0], value_schema=data.decode("utf-8", "replace"))
    decode_metadata(encode_metadata(altered))


@cache
def _relations() -> list[RelationRecord]:
    kind = CONTROL_RECORDS.index("Relation")
    found = [decode_metadata(_head("Relation") + each[1:]) for each in seeds("control_record") if each[0] == kind]
    return [record for record in found if isinstance(record, RelationRecord)]


@cache
def _head(name: str) -> bytes:
    return prefix_of(schema_id(control_schema(name)))


def event(data: bytes) -> None:
    """The body of an event, of the type that the first byte chooses, as the job's driver reads it."""
    writers = typed_writers()
    writer, schema = writers[data[0] % len(writers) if data else 0]
    decode_body(prefix_of(writer.relation.schema_id) + data[1:], schema)


def _event_of(seed: bytes) -> bytes:
    writer, _ = typed_writers()[seed[0]]
    return (writer.copied(one_field(b"t", seed[1:]), SOURCE, writer.snapshot_source, TS_MS).value or b"")[
        SINGLE_OBJECT.body_at :
    ]


@dataclass(frozen=True, slots=True)
class Target:
    """``weight``: its part of a campaign's inputs. ``refusals``: besides them only a value."""

    run: Callable[[bytes], None]
    weight: int = 1
    refusals: tuple[type[Exception], ...] = (ProtocolError,)

    def __call__(self, data: bytes) -> None:
        """Take the input; anything raised is a bug."""
        with contextlib.suppress(*self.refusals):
            self.run(data)


TARGETS: dict[str, Target] = {
    "frame": Target(frame),
    "message": Target(message, 4),
    "stream": Target(stream, 2),
    "change": Target(change, 3, (ProtocolError, OperatorError)),
    "copy_line": Target(copy_line, 2),
    "value": Target(value, 4),
    "binary_value": Target(binary_value, 4, (ProtocolError, OperatorError)),
    "control_record": Target(control_record, 3),
    "value_schema": Target(value_schema),
    "event": Target(event, 2),
}


def any_target(data: bytes) -> None:
    """All of them in one process: the first byte says which."""
    targets = list(TARGETS.values())
    targets[data[0] % len(targets) if data else 0](data[1:])


ALL = "all"


def target_of(name: str) -> Callable[[bytes], None]:
    """The function of a target, or the one that is all of them."""
    return any_target if name == ALL else TARGETS[name]


def seeds(name: str) -> list[bytes]:
    """Inputs to begin with: real ones, as ``make_seeds`` took them from servers' transcripts."""
    if name == ALL:
        return [bytes([at]) + seed for at, each in enumerate(TARGETS) for seed in seeds(each)]
    if name == "event":  # whatever the envelope is today
        return [seed[:1] + _event_of(seed) for seed in seeds("value")]
    if name == "value_schema":
        return [_relations()[0].value_schema.encode()]
    return [bytes.fromhex(line) for line in (SEEDS / f"{name}.hex").read_text().splitlines()]
