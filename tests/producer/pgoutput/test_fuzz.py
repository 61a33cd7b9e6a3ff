"""Messages that Postgres sent, damaged: each is decoded and transcoded, or refused by one error.

In: ``corpus.hex`` and a seed. Damage reaches every layer: tags, counts, lengths, kinds of fields,
values. Whatever a change becomes must be Avro that a reader decodes with the schema it names.
"""

import json
from collections.abc import Iterator
from random import Random
from struct import pack

import fastavro
import pytest

from producer.pgoutput.decoder import DECODERS, decode_message, decode_tuple
from producer.pgoutput.messages import Delete, Insert, Message, Relation, StreamStart, Update
from producer.pgoutput.streamed import StreamDecoder
from producer.record import KafkaRecord, RecordWriter, TransactionSource
from producer.relation_cache import RelationCache, TopicPlace, describe
from schemas.avro_codec import decode_body
from schemas.errors import OperatorError, ProtocolError
from tests.producer.pgoutput import transcripts
from tests.producer.pgoutput.corpus import load

MUTATED_COUNT = 100_000
_INTERESTING = [0, 1, 2, 0x6E, 0x74, 0x75, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1]
_TAGS = bytes(DECODERS) + b"Nntu\0\xff"
SOURCE = TransactionSource.of(0x100, 1_700_000_000_000_000, 7, None)
TS_MS = b"\x02\x02"


def mutated(corpus: list[bytes], random: Random, count: int) -> Iterator[bytes]:
    """Real messages with one to four kinds of damage each."""
    for _ in range(count):
        data = bytearray(random.choice(corpus))
        for _ in range(random.choice((1, 1, 2, 4))):
            _damage(data, random, corpus)
        yield bytes(data)


def _damage(data: bytearray, random: Random, corpus: list[bytes]) -> None:
    # Most damage is near the start, where the structure is; long values are all alike.
    at = random.randrange(min(len(data), random.choice((8, 80, 5000))) or 1)
    match random.randrange(7):
        case 0 if data:
            data[at % len(data)] ^= 1 << random.randrange(8)
        case 1:
            data[at : at + 1] = bytes((random.choice(_TAGS),))
        case 2:
            data[at : at + 4] = pack(">I", random.choice(_INTERESTING))
        case 3:
            data[at : at + 2] = pack(">H", random.choice(_INTERESTING) & 0xFFFF)
        case 4:
            del data[at : at + random.choice((1, 2, 5, 500))]
        case 5:
            data[at:at] = data[at : at + random.choice((1, 4, 9))]
        case _:
            other = random.choice(corpus)
            data[at:] = other[random.randrange(len(other)) :]


class Receiver:
    """Transcodes changes of the corpus' relations, whatever relation id the damage left."""

    def __init__(self, corpus: list[bytes]) -> None:
        relations = [message for message in map(decode_message, corpus) if isinstance(message, Relation)]
        cache = RelationCache("p")
        self.writers: dict[int, RecordWriter] = {}
        self.schemas: dict[str, object] = {}
        for relation in relations:
            record = cache.version_of(describe(relation, None, {}), TopicPlace("t", 1))
            self.writers[relation.relation_id] = RecordWriter(record, "p", "db")
            self.schemas[record.schema_id] = fastavro.parse_schema(json.loads(record.value_schema))
        self.any_writer = next(iter(self.writers.values()))

    def records(self, message: Message) -> list[KafkaRecord]:
        """The records of a change; none of any other message."""
        if not isinstance(message, Insert | Update | Delete):
            return []
        writer = self.writers.get(message.relation_id, self.any_writer)
        if isinstance(message, Insert):
            return writer.insert(message, SOURCE, 0, TS_MS)
        if isinstance(message, Update):
            return writer.update(message, SOURCE, 0, TS_MS)
        return writer.delete(message, SOURCE, 0, TS_MS)


@pytest.fixture(scope="module")
def corpus() -> list[bytes]:
    return load()


@pytest.fixture(scope="module")
def receiver(corpus: list[bytes]) -> Receiver:
    return Receiver(corpus)


def test_every_message_of_the_corpus_is_understood(corpus: list[bytes], receiver: Receiver) -> None:
    records = [record for payload in corpus for record in receiver.records(decode_message(payload))]

    for record in records:
        decode_body(record.value, receiver.schemas[record.value[2:10].hex()])
    assert len(records) > 40


def test_mutated_message_is_decoded_or_refused_but_never_crashes(corpus: list[bytes], receiver: Receiver) -> None:
    accepted = refused = 0
    for payload in mutated(corpus, Random(20_250_101), MUTATED_COUNT):
        try:
            records = receiver.records(decode_message(payload))
        except (ProtocolError, OperatorError):
            refused += 1
            continue
        accepted += 1
        for record in records:
            _expect_decodable(record, receiver)
    assert accepted > MUTATED_COUNT // 20
    assert refused > MUTATED_COUNT // 20


def _expect_decodable(record: KafkaRecord, receiver: Receiver) -> None:
    try:
        decode_body(record.value, receiver.schemas[record.value[2:10].hex()])
    except ProtocolError as error:
        # Damage inside a text: Postgres itself never sends other than client_encoding.
        if not isinstance(error.__cause__, UnicodeDecodeError):
            raise


def test_tuple_that_the_decoder_refuses_is_refused_by_the_transcoder_too(
    corpus: list[bytes], receiver: Receiver
) -> None:
    inserts = [payload for payload in corpus if payload[:1] == b"I"]
    for payload in mutated(inserts, Random(7), 20_000):
        try:
            message = decode_message(payload)
            if not isinstance(message, Insert):
                continue
            receiver.records(message)
        except (ProtocolError, OperatorError):
            continue
        decode_tuple(message.new)


def test_every_byte_of_every_short_message_replaced_by_every_tag_is_decoded_or_refused(
    corpus: list[bytes], receiver: Receiver
) -> None:
    for payload in {payload[:1] + bytes([len(payload)]): payload for payload in corpus if len(payload) < 200}.values():
        for at in range(len(payload)):
            for tag in _TAGS:
                damaged = payload[:at] + bytes([tag]) + payload[at + 1 :]
                try:
                    receiver.records(decode_message(damaged))
                except (ProtocolError, OperatorError):
                    continue


@pytest.mark.parametrize("is_in_block", [False, True])
def test_mutated_message_of_any_version_is_decoded_or_refused(is_in_block: bool) -> None:
    lines = [line for path in transcripts.paths() for line in transcripts.load(path)]
    sent = sorted({payload for payload, message in lines if ("block_xid" in message) == is_in_block})
    decoder = StreamDecoder()
    accepted: set[int] = set()
    for payload in mutated(sent, Random(99), MUTATED_COUNT // 4):
        decoder.block = StreamStart(0x300, False) if is_in_block else None
        try:
            _, message = decoder.decode(payload)
            for name in ("new", "key", "old"):
                if (data := getattr(message, name, None)) is not None:
                    decode_tuple(data)
        except ProtocolError:
            continue
        accepted.add(payload[0])
    assert accepted == (set(b"MRYIUDTOE") if is_in_block else {*DECODERS} - {ord("E")})
