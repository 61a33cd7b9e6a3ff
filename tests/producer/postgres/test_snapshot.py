"""Lines of COPY's text format to the tuples that the stream would send."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from producer.pgoutput.messages import Field, Unsent
from producer.postgres.facts import PublishedTable
from producer.postgres.snapshot import copy_statement, tuple_of_line
from schemas.errors import ProtocolError
from tests.producer.pgoutput.encoder import tuple_data

NULL = Unsent.NULL

LINES: dict[str, tuple[bytes, list[Field]]] = {
    "plain": (b"a\tb\n", [b"a", b"b"]),
    "null": (b"\\N\n", [NULL]),
    "text \\N": (b"\\\\N\n", [b"\\N"]),
    "null beside text \\N": (b"\\N\t\\\\N\t\\\\\\\\N\n", [NULL, b"\\N", b"\\\\N"]),
    "empty text": (b"\n", [b""]),
    "empty texts": (b"\t\t\n", [b"", b"", b""]),
    "no columns": (b"\n", []),
    "backspace": (b"\\b\n", [b"\b"]),
    "form feed": (b"\\f\n", [b"\f"]),
    "line feed": (b"\\n\n", [b"\n"]),
    "carriage return": (b"\\r\n", [b"\r"]),
    "tab": (b"\\t\n", [b"\t"]),
    "vertical tab": (b"\\v\n", [b"\v"]),
    "backslash": (b"\\\\\n", [b"\\"]),
    "backslash before n": (b"\\\\n\n", [b"\\n"]),
    "CR LF": (b"a\\r\\nb\tc\n", [b"a\r\nb", b"c"]),
    "carriage return that is not escaped": (b"a\rb\n", [b"a\rb"]),
    "octal": (b"\\101\\7\\0601\n", [b"A\x0701"]),
    "octal of nine bits": (b"\\777\n", [b"\xff"]),
    "hexadecimal": (b"\\x41\\xA\\x414\n", [b"A\nA4"]),
    "no hexadecimal": (b"\\xg\n", [b"xg"]),
    "no octal": (b"\\8\n", [b"8"]),
    "any other character": (b"\\a\\.\\N!\n", [b"a.N!"]),
    "end marker of older protocols": (b"\\\\.\n", [b"\\."]),
    "four bytes of UTF-8": ("é😀\t\\N\n".encode(), ["é😀".encode(), NULL]),
    "bytea": (b"\\\\x00ff\n", [b"\\x00ff"]),
}


@pytest.mark.parametrize(("line", "fields"), LINES.values(), ids=LINES)
def test_line_is_read_as_the_manual_lays_it_out(line: bytes, fields: list[Field]) -> None:
    assert tuple_data(*fields) == tuple_of_line(line, len(fields))


_ESCAPES = {b"\\": b"\\\\", b"\b": b"\\b", b"\f": b"\\f", b"\n": b"\\n", b"\r": b"\\r", b"\t": b"\\t", b"\v": b"\\v"}


def copied(fields: list[bytes | None]) -> bytes:
    """As ``CopyAttributeOutText`` in copyto.c prints a row."""
    texts = (
        b"\\N" if field is None else b"".join(_ESCAPES.get(bytes([byte]), bytes([byte])) for byte in field)
        for field in fields
    )
    return b"\t".join(texts) + b"\n"


TEXTS = st.text(st.sampled_from("\\\b\f\n\r\t\vNnx0é."), max_size=10).map(str.encode)


@given(st.lists(st.none() | TEXTS | st.binary(max_size=20), max_size=6))
@example([b"\\N", None, b""])
def test_any_row_reads_back(fields: list[bytes | None]) -> None:
    expected = tuple_data(*(NULL if field is None else field for field in fields))

    assert expected == tuple_of_line(copied(fields), len(fields))


@pytest.mark.parametrize(
    ("line", "columns"),
    [(b"a\tb\n", 1), (b"a\tb\n", 3), (b"a\n", 0), (b"\t\n", 0), (b"a\tb", 2), (b"", 0), (b"", 1)],
)
def test_line_of_another_shape_than_the_table_is_refused(line: bytes, columns: int) -> None:
    with pytest.raises(ProtocolError):
        tuple_of_line(line, columns)


@given(st.binary(max_size=30), st.integers(0, 4))
def test_garbage_is_a_tuple_or_refused(line: bytes, columns: int) -> None:
    try:
        tuple_of_line(line, columns)
    except ProtocolError:
        return
    assert line.endswith(b"\n")


def published(**facts: object) -> PublishedTable:
    known: dict[str, object] = {
        "relation_id": 1, "namespace": "s", "name": "t", "replica_identity": "d", "column_names": ("a", "b"),
        "row_filter": None, "is_partitioned": False,
    }  # fmt: skip
    return PublishedTable(**(known | facts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("table", "statement"),
    [
        (published(), 'COPY (SELECT "a", "b" FROM ONLY "s"."t") TO STDOUT'),
        (published(is_partitioned=True), 'COPY (SELECT "a", "b" FROM "s"."t") TO STDOUT'),
        (published(column_names=()), 'COPY (SELECT  FROM ONLY "s"."t") TO STDOUT'),
        (published(row_filter="(a > 1)"), 'COPY (SELECT "a", "b" FROM ONLY "s"."t" WHERE (a > 1)) TO STDOUT'),
        (
            published(namespace='o"dd', name="T {x}", column_names=('a "b"', "{}", "%s")),
            'COPY (SELECT "a ""b""", "{}", "%s" FROM ONLY "o""dd"."T {x}") TO STDOUT',
        ),
        (
            published(row_filter="((a)::text ~~ '%{0}'::text)"),
            """COPY (SELECT "a", "b" FROM ONLY "s"."t" WHERE ((a)::text ~~ '%{0}'::text)) TO STDOUT""",
        ),
    ],
    ids=["table", "partitioned root", "no columns", "row filter", "odd names", "row filter of odd text"],
)
def test_copy_selects_what_is_published(table: PublishedTable, statement: str) -> None:
    assert statement == copy_statement(table).as_string(None)
