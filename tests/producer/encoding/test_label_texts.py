"""The names of labels in values: all of them are told once, whatever holds them, as text and in binary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.producer.avro_reader import record_of
from tests.producer.pgoutput.encoder import tuple_data
from tests.schemas.strategies import column
from walbridge.producer.encoding import label_finders, label_texts
from walbridge.producer.encoding.binary.containers import (
    array_reader,
    composite_reader,
    multirange_reader,
    range_reader,
)
from walbridge.producer.encoding.binary.lines import BinaryColumn
from walbridge.producer.encoding.binary.reader import Reader
from walbridge.producer.encoding.binary.scalars import text_of_int4, text_of_text
from walbridge.producer.encoding.label_finders import LabelColumn
from walbridge.producer.encoding.label_texts import LabelTexts, Use
from walbridge.producer.encoding.record import INTERPRETED_ROWS, RecordWriter
from walbridge.producer.encoding.transaction_source import TransactionSource
from walbridge.producer.pgoutput.messages import Binary, Delete, Insert, Unsent, Update
from walbridge.schemas.avro.value_encoders import encode_text
from walbridge.schemas.pg_types import TypeFacts, column_type
from walbridge.schemas.position import Lsn
from walbridge.schemas.table_schema import Column, TableSchema

TABLE, INT, TEXT, ENUM, OTHER, DOMAIN, FIRST_MADE = 16_400, 23, 25, 600_001, 600_002, 600_003, 600_010
TYPES = {
    ENUM: TypeFacts(ENUM, "public", "mood", "e", ("sad", "ok")),
    OTHER: TypeFacts(OTHER, "public", "size", "e", ("large",)),
    DOMAIN: TypeFacts(DOMAIN, "public", "feeling", "d", base_type=ENUM),
}
READERS: dict[int, Reader] = {TEXT: text_of_text, INT: text_of_int4, ENUM: text_of_text, OTHER: text_of_text}
EMPTY, NO_LOWER, NO_UPPER = 1, 8, 16
NOT_EMPTY = (0, 2, 4, 6, NO_LOWER, 2 | NO_UPPER, NO_LOWER | NO_UPPER)
EMPTY_OR_NOT = (EMPTY, *NOT_EMPTY)
Types = dict[int, TypeFacts]
Sized = tuple[int, bytes | None]
"""A type that a value names, and the value in binary; None for a null."""


def table(*type_oids: int, types: Types = TYPES) -> TableSchema:
    columns = (Column(f"c{n}", of, "t", -1, column_type(of, -1, types)) for n, of in enumerate(type_oids))
    return TableSchema(TABLE, "public", "t", "d", tuple(columns))


def array(element: int, *values: bytes | None, sizes: tuple[int, ...] = ()) -> bytes:
    sizes = sizes or (len(values),)
    head = pack(">iiI", len(sizes) if values else 0, 0, element)
    return head + b"".join(pack(">ii", size, 1) for size in sizes if values) + b"".join(map(sized, values))


def composite(*fields: Sized) -> bytes:
    return pack(">i", len(fields)) + b"".join(pack(">I", oid) + sized(value) for oid, value in fields)


def sized(value: bytes | None) -> bytes:
    return pack(">i", -1) if value is None else pack(">i", len(value)) + value


class Made:
    """A type that was drawn, with all within it."""

    def __init__(self, draw: Any) -> None:
        self.draw, self.types, self.readers = draw, dict(TYPES), dict(READERS)
        self.labels: set[tuple[int, bytes]] = set()
        """In the values that were drawn."""

    def type(self, depth: int) -> int:
        of_others = ["array", "composite", "domain over", "range", "ranges"]
        kinds = ["enum", "domain", "other", "int"] + (of_others if depth else [])
        match self.draw(st.sampled_from(kinds)):
            case "array":
                element = self.type(depth - 1)
                while self.types.get(element, TYPES[ENUM]).kind == "a":
                    element = self.types[element].element_type or 0
                return self._add("a", array_reader(self.readers), element_type=element)
            case "composite":
                fields = tuple((f"f{n}", self.type(depth - 1)) for n in range(self.draw(st.integers(0, 3))))
                return self._add("c", composite_reader(self.readers), fields=fields)
            case "domain over":
                base = self.type(depth - 1)
                return self._add("d", self.readers.get(base, text_of_text), base_type=base)
            case "range":
                bound = self.type(depth - 1)
                return self._add("r", range_reader(self.readers.get(bound, text_of_text)), element_type=bound)
            case "ranges":
                bound = self.type(depth - 1)
                of = self._add("r", range_reader(self.readers.get(bound, text_of_text)), element_type=bound)
                return self._add("m", multirange_reader(self.readers[of]), element_type=of)
            case kind:
                return {"enum": ENUM, "domain": DOMAIN, "other": OTHER, "int": INT}[kind]

    def _add(self, kind: str, read: Reader, **facts: Any) -> int:
        oid = FIRST_MADE + len(self.types)
        self.types[oid], self.readers[oid] = TypeFacts(oid, "public", f"t{oid}", kind, **facts), read
        return oid

    def value(self, oid: int) -> tuple[int, bytes]:
        """The type under all domains, and a value of it."""
        facts = self.types.get(oid)
        if facts is None:
            return oid, pack(">i", self.draw(st.integers(-9, 9)))
        if facts.kind == "d":
            return self.value(facts.base_type or 0)
        if facts.kind == "e":
            text = self.draw(
                st.text(st.sampled_from('ab,"\\{}() N\n'), max_size=4) | st.sampled_from(("", "NULL"))
            ).encode()
            self.labels.add((oid, text))
            return oid, text
        if facts.kind == "c":
            return oid, composite(*(self.field(of) for _, of in facts.fields))
        if facts.kind == "r":
            return oid, self.range(facts.element_type or 0, *EMPTY_OR_NOT)
        if facts.kind == "m":
            bound = self.types[facts.element_type or 0].element_type or 0
            ranges = [self.range(bound, *NOT_EMPTY) for _ in range(self.draw(st.integers(0, 2)))]
            return oid, pack(">i", len(ranges)) + b"".join(map(sized, ranges))
        sizes = tuple(self.draw(st.lists(st.integers(1, 2), min_size=1, max_size=3)))
        fields = [self.field(facts.element_type or 0) for _ in range(prod(sizes))]
        return oid, array(self.under(facts.element_type or 0), *(value for _, value in fields), sizes=sizes)

    def range(self, bound: int, *flags: int) -> bytes:
        chosen = self.draw(st.sampled_from(flags))
        finite = 0 if chosen & EMPTY else 2 - bool(chosen & NO_LOWER) - bool(chosen & NO_UPPER)
        return pack(">B", chosen) + b"".join(sized(self.value(bound)[1]) for _ in range(finite))

    def field(self, oid: int) -> Sized:
        return (self.under(oid), None) if self.draw(st.booleans()) else self.value(oid)

    def under(self, oid: int) -> int:
        facts = self.types.get(oid)
        return self.under(facts.base_type or 0) if facts is not None and facts.kind == "d" else oid


def finders(texts: LabelTexts, *type_oids: int, types: Types = TYPES) -> list[LabelColumn]:
    """Of columns that may all have labels."""
    columns = texts.columns_of(table(*type_oids, types=types)) or []
    return [each for each in columns if each is not None]


def told(texts: LabelTexts) -> set[tuple[int, bytes]]:
    enums = texts.take().get(TABLE, {})
    assert enums is not None
    return {(enum, text) for enum, found in enums.items() for text in found}


@settings(deadline=None, max_examples=examples(300))
@given(st.data())
def test_labels_of_any_values_are_told_as_text_and_in_binary(data: st.DataObject) -> None:
    made = Made(data.draw)
    oid = made.type(3)
    values = [made.value(oid) for _ in range(2)]
    for is_binary in (False, True):
        texts = LabelTexts(made.types.get)
        columns = texts.columns_of(table(oid, types=made.types))
        found = columns[0] if columns else None
        assert found is not None or not made.labels
        for under, value in values:
            if found is not None and is_binary:
                found.find_binary(value)
            elif found is not None:
                found.find(made.readers[under](value))
        assert told(texts) == made.labels


ENUMS = FIRST_MADE
WITH_ARRAY = TYPES | {ENUMS: TypeFacts(ENUMS, "public", "_mood", "a", element_type=ENUM)}


def ways(writer: RecordWriter, new: bytes) -> list[Callable[[], object]]:
    """Every way that a row goes."""
    source = TransactionSource.of(1, 1, 1, None)
    return [
        lambda: writer.plain(new, 0, b"", b"", 0, b""),
        lambda: writer.insert(Insert(TABLE, new), source, 0, b""),
        lambda: writer.update(Update(TABLE, None, None, new), source, 0, b""),
        lambda: writer.delete(Delete(TABLE, new, None), source, 0, b""),
    ]


@pytest.mark.parametrize("is_binary", [False, True])
def test_labels_are_told_whatever_encodes_the_row(*, is_binary: bool) -> None:
    """The first rows, those of generated code, plain ones and others; each with the transaction that brought it."""
    record = record_of(column("id", 20, is_key=True), replace(column("e", TEXT), type_oid=DOMAIN))
    binary = [None, BinaryColumn("enum_send", text_of_text, encode_text)] if is_binary else None
    for way in range(4):
        texts = LabelTexts(TYPES.get)
        texts.use = lambda: Use(7, Lsn(9))
        writer = RecordWriter(record, "p", "d", binary, texts.columns_of(record.table))
        for n in range(INTERPRETED_ROWS + 2):
            label = b"label %d" % n
            ways(writer, tuple_data(b"1", Binary(label) if is_binary else label))[way]()
            assert texts.take() == {record.table.relation_id: {ENUM: {label: frozenset({Use(7, Lsn(9))})}}}


def test_each_text_is_told_once_until_the_table_is_forgotten() -> None:
    """It is met anew in a copy, which takes what is known of the table anew."""
    texts = LabelTexts(WITH_ARRAY.get)
    plain, of_array = finders(texts, ENUM, ENUMS, types=WITH_ARRAY)
    for _ in range(2):
        plain.find(b"sad")
        of_array.find(b"{ok,sad}")
        assert b"{ok,sad}" in of_array.known
        assert told(texts) == {(ENUM, b"sad"), (ENUM, b"ok")}
        plain.find(b"ok")
        assert told(texts) == set()
        texts.forget(TABLE)
        assert not of_array.known


def test_versions_of_a_table_share_what_was_met() -> None:
    """I9: a version that is gone leaves nothing behind."""
    texts = LabelTexts(TYPES.get)
    for _ in range(2):
        (found,) = finders(texts, ENUM)
        found.find(b"ok")
    assert told(texts) == {(ENUM, b"ok")}
    assert found.known == {b"ok"}


def test_tables_without_labels_cost_nothing() -> None:
    assert LabelTexts(TYPES.get).columns_of(table(INT, TEXT)) is None
    made = {FIRST_MADE: TypeFacts(FIRST_MADE, "public", "pair", "c", fields=(("a", INT), ("b", TEXT)))}
    assert LabelTexts(made.get).columns_of(table(FIRST_MADE, types=made)) is None


def test_more_texts_than_are_kept_are_told_as_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """I9"""
    monkeypatch.setattr(label_texts, "TEXTS_MAX", 3)
    texts = LabelTexts(TYPES.get)
    (found,) = finders(texts, ENUM)
    for n in range(5):
        found.find(b"%d" % n)
    assert len(found.known) == 3
    assert texts.take() == {TABLE: None}
    found.find(b"4")
    assert told(texts) == {(ENUM, b"4")}


def test_few_values_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """I9: composites may be as many as rows."""
    monkeypatch.setattr(label_finders, "VALUES_MAX", 3)
    texts = LabelTexts(WITH_ARRAY.get)
    (found,) = finders(texts, ENUMS, types=WITH_ARRAY)
    for n in range(10):
        found.find(b"{%d}" % n)
        assert len(found.known) <= 3
    found.find(b"{%b}" % (b"x" * label_finders.VALUE_BYTES_MAX))
    assert len(found.known) <= 3
    assert (ENUM, b"x" * label_finders.VALUE_BYTES_MAX) in told(texts)


@pytest.mark.parametrize("value", [b"", b"{", b'{"', b"(", b'("', b"()", b"{}", b"[", b"(,", b'(",', b"[a", b"{[a,b"])
def test_what_is_malformed_is_left_to_who_encodes_it(value: bytes) -> None:
    pair = TypeFacts(FIRST_MADE + 1, "public", "pair", "c", fields=(("a", INT), ("b", ENUM)))
    span = TypeFacts(FIRST_MADE + 2, "public", "span", "r", element_type=ENUM)
    spans = TypeFacts(FIRST_MADE + 3, "public", "spans", "m", element_type=span.oid)
    types = WITH_ARRAY | {each.oid: each for each in (pair, span, spans)}
    for found in finders(LabelTexts(types.get), ENUMS, pair.oid, span.oid, spans.oid, types=types):
        found.find(value)


def test_value_that_was_not_sent_has_no_label() -> None:
    record = record_of(column("id", 20, is_key=True), replace(column("e", TEXT), type_oid=ENUM))
    texts = LabelTexts(TYPES.get)
    writer = RecordWriter(record, "p", "d", None, texts.columns_of(record.table))
    writer.plain(tuple_data(b"1", Unsent.NULL), 0, b"", b"", 0, b"")
    assert texts.take() == {}
