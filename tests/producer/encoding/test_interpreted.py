"""The first rows of a version, without generated code: the same bytes and the same refusals as with it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.producer.avro_reader import record_of
from tests.producer.pgoutput.encoder import tuple_data
from tests.producer.strategies import fields_of
from tests.producer.written_record import BIG, ID, KEYED, NAME, SOURCE, TS_MS
from tests.schemas.strategies import table, tables
from walbridge.producer.encoding import record as record_module
from walbridge.producer.encoding.interpreted import interpreting_plain_encoder, interpreting_transcoder
from walbridge.producer.encoding.kafka_record import KafkaRecord
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.encoding.transcoder import make_plain_encoder, make_transcoder
from walbridge.producer.pgoutput.messages import Insert, Unsent
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.table_schema import TableSchema

T = TypeVar("T")


def _tried(encode: Callable[[], T]) -> T | str:
    try:
        return encode()
    except ProtocolError:
        return "refused"


@settings(deadline=None, max_examples=examples(50))
@given(tables(), st.data())
def test_any_tuple_becomes_what_generated_code_makes_of_it(of: TableSchema, data: st.DataObject) -> None:
    record = record_of(of=of)
    sent = [each if isinstance(each, Unsent) else each[0] for each in data.draw(fields_of(of))]
    row = b"before" + tuple_data(*sent)
    interpret = interpreting_transcoder(record)
    plain, generated_plain = interpreting_plain_encoder(record, interpret), make_plain_encoder(record)

    assert make_transcoder(record)(row, 6) == interpret(row, 6)
    for ordinal in (0, 0x1FFF, 0x2000, -1):
        arguments = row, 6, b"part", b"transaction", ordinal, b"rest"
        assert generated_plain(*arguments) == plain(*arguments)


@settings(deadline=None, max_examples=examples(80))
@given(tables(), st.data())
def test_damaged_tuple_is_refused_where_generated_code_refuses_it(of: TableSchema, data: st.DataObject) -> None:
    """I7"""
    record = record_of(of=of)
    sent = [each if isinstance(each, Unsent) else each[0] for each in data.draw(fields_of(of))]
    row = bytearray(tuple_data(*sent))
    row[data.draw(st.integers(0, len(row) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(row[: data.draw(st.integers(0, len(row)))]) + data.draw(st.sampled_from([b"", b"n", b"u"]))

    generated, interpreted = (_tried(lambda make=make: make(record)(damaged, 0)) for make in MAKERS)  # type: ignore[misc]

    assert generated == interpreted


MAKERS = (make_transcoder, interpreting_transcoder)


def test_value_that_was_not_sent_is_told_before_code_is_generated_too() -> None:
    """I6"""
    row = interpreting_transcoder(record_of(ID, BIG))(tuple_data(b"1", Unsent.UNCHANGED_TOAST), 0)

    assert row.unchanged == ("big",)


def test_binary_value_is_refused_in_a_session_that_asked_for_text() -> None:
    """I7"""
    for make in MAKERS:
        with pytest.raises(ProtocolError, match="unknown kind of field 98"):
            make(record_of(NAME))(b"\0\1b\0\0\0\1x", 0)


def test_rows_are_the_same_before_and_after_code_is_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_module, "INTERPRETED_ROWS", 3)
    writer = RecordWriter(record_of(of=KEYED), "p", "shop")
    row = tuple_data(b"1", b"a name", b"big")

    plain = [writer.plain(row, 0, writer.source, SOURCE.encoded, 3, b"") for _ in range(5)]
    inserted = [writer.insert(Insert(16_384, row), SOURCE, 3, TS_MS) for _ in range(2)]

    assert all(one == other for one, other in pairwise(plain))
    assert inserted[0] == inserted[1]


def test_code_is_generated_after_the_first_rows_of_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(record_module, "INTERPRETED_ROWS", 3)

    def noting(name: str) -> Callable[..., object]:
        make = getattr(record_module, name)

        def noted(*given: object) -> object:
            made.append(name)
            return make(*given)

        return noted

    for name in ("make_plain_encoder", "make_transcoder"):
        monkeypatch.setattr(record_module, name, noting(name))
    writer = RecordWriter(record_of(of=table(ID, NAME, BIG)), "p", "shop")
    row = tuple_data(b"1", b"a name", b"big")

    def insert() -> list[KafkaRecord]:
        return writer.insert(Insert(16_384, row), SOURCE, 3, TS_MS)

    def plain() -> object:
        return writer.plain(row, 0, writer.source, SOURCE.encoded, 3, b"")

    seen = []
    for way in (insert, plain, plain, plain, plain, insert, insert):
        way()
        seen.append([*made])

    both = ["make_plain_encoder", "make_transcoder"]
    assert seen == [[], [], [], both[:1], both[:1], both, both]
