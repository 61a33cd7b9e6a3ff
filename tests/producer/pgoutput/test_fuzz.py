"""Messages that Postgres sent, damaged: each is decoded and transcoded, or refused by one error.

In: ``corpus.hex`` and a seed. Damage reaches every layer: tags, counts, lengths, kinds of fields,
values. Whatever a change becomes must be Avro that a reader decodes with the schema it names.
"""

from random import Random

import pytest

from tests.fuzz.damage import TAGS, mutated
from tests.fuzz.receiver import Receiver
from tests.producer.pgoutput import transcripts
from tests.producer.pgoutput.corpus import load
from tests.producer.pgoutput.stream_decoder import StreamDecoder
from walbridge.producer.pgoutput.decoder import DECODERS, decode_message, decode_tuple
from walbridge.producer.pgoutput.messages import Insert, StreamStart
from walbridge.schemas.avro.codec import decode_body
from walbridge.schemas.errors import OperatorError, ProtocolError

MUTATED_COUNT = 100_000


@pytest.fixture(scope="module")
def corpus() -> list[bytes]:
    return load()


@pytest.fixture(scope="module")
def receiver(corpus: list[bytes]) -> Receiver:
    return Receiver(corpus)


def test_every_message_of_the_corpus_is_understood(corpus: list[bytes], receiver: Receiver) -> None:
    records = [record for payload in corpus for record in receiver.records(decode_message(payload))]

    for value in (record.value or b"" for record in records):
        decode_body(value, receiver.schemas[value[2:10].hex()])
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
            receiver.expect_readable(record)
    assert accepted > MUTATED_COUNT // 20
    assert refused > MUTATED_COUNT // 20


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
            for tag in TAGS:
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
