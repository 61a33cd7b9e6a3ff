"""The generated function: TupleData in, Avro Row and Key out."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.producer.avro_reader import encoded_key, key, record_of, row, text_fields
from tests.producer.pgoutput.encoder import tuple_data
from tests.producer.strategies import EXCEPTIONAL, fields_of
from tests.schemas.strategies import column, numeric_typmod, table, tables
from walbridge.producer.encoding.transcoder import EncodedTuple, make_transcoder
from walbridge.producer.pgoutput.messages import Field, Unsent
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.table_schema import TableSchema

NULL, UNCHANGED = Unsent.NULL, Unsent.UNCHANGED_TOAST
ID, NAME = column("id", 20, is_key=True), column("name", 25)
DAY, PRICE = column("day", 1082, is_key=True), column("price", 1700, numeric_typmod(10, 2))


def transcode(record: RelationRecord, *fields: Field) -> EncodedTuple:
    return make_transcoder(record)(tuple_data(*fields), 0)


@settings(deadline=None, max_examples=examples(50))
@given(tables(), st.data())
def test_any_tuple_of_any_table_decodes_to_its_values(of: TableSchema, data: st.DataObject) -> None:
    record = record_of(of=of)
    fields = data.draw(fields_of(of))
    sent: list[Field] = [field if isinstance(field, Unsent) else field[0] for field in fields]

    encoded = transcode(record, *sent)

    found = [None if isinstance(f, Unsent) or f[1] is EXCEPTIONAL else f[1] for f in fields]
    names = [each.name for each in of.columns]
    pairs = list(zip(names, fields, strict=True))
    texts = {name: f[0] for name, f in pairs if not isinstance(f, Unsent) and f[1] is EXCEPTIONAL}
    assert found == row(record, encoded.row)
    assert tuple(name for name, f in pairs if f is UNCHANGED) == encoded.unchanged
    assert texts == (encoded.exceptional or {})


@settings(deadline=None, max_examples=examples(50))
@given(tables(), st.data())
def test_key_is_what_fastavro_writes_for_the_key_schema(of: TableSchema, data: st.DataObject) -> None:
    """I3: whoever writes the same key by the contract reaches the same partition."""
    record = record_of(of=of)
    fields = data.draw(fields_of(of))
    encoded = transcode(record, *(field if isinstance(field, Unsent) else field[0] for field in fields))

    keys = [(each.name, f) for each, f in zip(of.columns, fields, strict=True) if each.is_key]
    if not keys or any(f is UNCHANGED for _, f in keys):
        assert encoded.key is None
        return
    found: list[Any] = [None if isinstance(f, Unsent) or f[1] is EXCEPTIONAL else f[1] for _, f in keys]
    texts = {name: f[0].decode() for name, f in keys if not isinstance(f, Unsent) and f[1] is EXCEPTIONAL}
    names = list(key(record, encoded.key))
    values = dict(zip(names, [*found, texts or None][: len(names)], strict=True))
    assert encoded_key(record, values) == encoded.key


def test_null_empty_and_unchanged_are_three_things() -> None:
    """I6"""
    record = record_of(ID, NAME)
    null, empty, unchanged = (transcode(record, b"1", field) for field in (NULL, b"", UNCHANGED))

    assert (row(record, null.row), null.unchanged) == ([1, None], ())
    assert (row(record, empty.row), empty.unchanged) == ([1, ""], ())
    assert (row(record, unchanged.row), unchanged.unchanged) == ([1, None], ("name",))


def test_tuple_may_begin_behind_other_bytes() -> None:
    record = record_of(ID, NAME)

    encoded = make_transcoder(record)(b"I\0\0\0\1N" + tuple_data(b"7", b"x"), 6)

    assert row(record, encoded.row) == [7, "x"]


def test_table_without_columns_has_rows_of_no_bytes() -> None:
    assert EncodedTuple(b"", None, (), None) == transcode(record_of())


@pytest.mark.parametrize("fields", [[], [b"1"], [b"1", b"x", b"y"]])
def test_another_number_of_fields_than_columns_is_refused(fields: list[Field]) -> None:
    with pytest.raises(ProtocolError, match=f"{len(fields)} fields for the 2 columns of public.orders"):
        transcode(record_of(ID, NAME), *fields)


EVERY = table(
    ID, NAME, DAY, PRICE, column("at", 1184), column("flag", 16), column("raw", 17), column("x", 700),
    column("tags", 1009), column("nothing", 25), column("big", 25),
)  # fmt: skip
EVERY_FIELDS: list[Field] = [
    b"1", b"n", b"2000-01-01", b"1.50", b"2000-01-01 00:00:00.5+00", b"t", b"\\x00", b"1.5", b'{a,"b c",NULL}', NULL,
    UNCHANGED,
]  # fmt: skip


def test_truncated_tuple_is_refused_at_every_length() -> None:
    decode, data = make_transcoder(record_of(of=EVERY)), tuple_data(*EVERY_FIELDS)
    decode(data, 0)

    for length in range(len(data)):
        with pytest.raises(ProtocolError):
            decode(data[:length], 0)


def test_bytes_left_over_are_refused() -> None:
    with pytest.raises(ProtocolError):
        make_transcoder(record_of(of=EVERY))(tuple_data(*EVERY_FIELDS) + b"n", 0)


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\x7f\xff\xff\xff", b"\0\0\0\2"])
def test_length_that_leads_past_the_end_or_backwards_is_refused(length: bytes) -> None:
    for record in (record_of(NAME), record_of(NAME, NAME), record_of(ID)):
        columns = len(record.table.columns)
        with pytest.raises(ProtocolError):
            make_transcoder(record)(columns.to_bytes(2, "big") + (b"t" + length + b"1") * columns, 0)


def test_unknown_kind_of_field_is_refused() -> None:
    """I7: a binary value, for one, which nobody asked for."""
    decode = make_transcoder(record_of(NAME))
    for kind in set(range(256)) - set(b"tnu"):
        with pytest.raises(ProtocolError, match="unknown kind of field"):
            decode(b"\0\1" + bytes([kind]) + b"\0\0\0\1x", 0)


@pytest.mark.parametrize(
    ("oid", "text"),
    [
        (16, b"yes"),
        (20, b"x"),
        (700, b"1,5"),
        (17, b"abc"),
        (1082, b"2023-02-30"),
        (1007, b"{1,y}"),
        (700, b"1e300"),
        (20, b"9" * 30),
    ],
)
def test_malformed_value_is_refused_without_being_told(oid: int, text: bytes) -> None:
    """I10: an error names the table, never the value."""
    with pytest.raises(ProtocolError, match=r"public\.orders") as refusal:
        transcode(record_of(column("a", oid)), text)

    assert text.decode() not in str(refusal.value)


def test_value_that_its_type_cannot_hold_is_null_and_its_text_is_kept() -> None:
    record = record_of(ID, DAY, PRICE)

    encoded = transcode(record, b"1", b"infinity", b"NaN")

    assert row(record, encoded.row) == [1, None, None]
    assert encoded.exceptional == {"day": b"infinity", "price": b"NaN"}


def test_exceptional_keys_stay_apart() -> None:
    record = record_of(DAY, PRICE)
    infinity, far, null = (transcode(record, day, b"NaN").key for day in (b"infinity", b"10000-01-01", NULL))

    assert key(record, infinity) == {"day": None, "_exceptional": {"day": "infinity"}}
    assert key(record, far) == {"day": None, "_exceptional": {"day": "10000-01-01"}}
    assert key(record, null) == {"day": None, "_exceptional": None}


def test_key_has_no_exceptional_text_of_other_columns() -> None:
    record = record_of(DAY, PRICE)

    assert transcode(record, b"2000-01-01", b"NaN").key == transcode(record, b"2000-01-01", b"1.00").key


def test_key_of_a_value_that_was_not_sent_is_no_key() -> None:
    record = record_of(column("code", 25, is_key=True), NAME)

    assert transcode(record, UNCHANGED, b"x").key is None
    assert transcode(record, b"c", UNCHANGED).key is not None


def test_keys_hold_their_columns_in_the_order_of_the_table() -> None:
    record = record_of(column("b", 23, is_key=True), column("x", 25), column("a", 25, is_key=True))

    assert list(key(record, transcode(record, b"1", b"y", b"z").key).items()) == [("b", 1), ("a", "z")]


ODD_NAMES = [
    "'", '"', "'''", '"""', "\\", "\\\\", "\\'", '\\"', "{", "}", "{}", "{0}", "{name!r}", "{{x}}", "%s", "\n", "\r\n",
    "\t", "\\n", "\\N{BULLET}", "\\x41", "\u2028", "é", "😀", "#", ");raise SystemExit(", '"); import os #', "f'{1}'",
    "c0", "data", "at", "NULL", "text", "'\"\\{}", " ", "class", "_exceptional", "_revision_1",
]  # fmt: skip


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_name_is_only_a_name_in_the_generated_code(name: str) -> None:
    of = table(
        column(name, 1082, is_key=True), column(name + "2", 25), column(name + "3", 1082), namespace=name, name=name
    )
    record = record_of(of=of)

    encoded = transcode(record, b"infinity", UNCHANGED, b"-infinity")

    assert (name + "2",) == encoded.unchanged
    assert {name: b"infinity", name + "3": b"-infinity"} == encoded.exceptional
    assert {name: "infinity"} == list(key(record, encoded.key).values())[-1]
    for wrong in (b"\0\1", b"\0\3b", b"\0\3t", tuple_data(b"x", b"", b"") + b"n"):
        with pytest.raises(ProtocolError):
            make_transcoder(record)(wrong, 0)


def test_widest_table_is_transcoded() -> None:
    columns = [column(f"c{n}", (23, 25, 1082)[n % 3], is_key=n < 3) for n in range(1600)]
    record = record_of(*columns)

    encoded = transcode(record, *text_fields(*(("5", "x", "2000-01-01")[n % 3] for n in range(1600))))

    assert row(record, encoded.row)[-1600:-1598] == [5, "x"]
    assert list(key(record, encoded.key)) == ["c0", "c1", "c2", "_exceptional"]
