"""What Postgres itself says of values, asked by SQL that shares nothing with the producer.

In: a table of ``every_type`` columns. Out: for each row and column three texts: the value to
compare with (bits where floats are concerned), the value as a plain SELECT prints it, and whether
our types can hold it. ``rendered`` writes what a reader of the topics found in the same form.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import psycopg

from tests.integration.typed_columns import TypedColumn

_SESSION = (
    "-c datestyle=ISO -c timezone=UTC -c extra_float_digits=3 -c bytea_output=hex -c intervalstyle=postgres "
    "-c lc_monetary=C"
)


class Expected(NamedTuple):
    """``compared`` and ``text`` are None for null."""

    compared: str | None
    text: str | None
    is_exceptional: bool


def expected_values(
    dsn: str, columns: tuple[TypedColumn, ...], table: str = "public.every_type"
) -> Iterator[tuple[int, list[Expected]]]:
    """Of each row its id, and what its columns hold."""
    parts = [part for c in columns for part in (_compared(c), f'"{c.name}"', f"coalesce({_exceptional(c)}, false)")]
    query = f"SELECT id, {', '.join(parts)} FROM {table} ORDER BY id"
    with psycopg.connect(dsn, options=_SESSION, client_encoding="UTF8") as connection:
        # The text format of the wire: psycopg's own readers would be another thing to trust.
        result = connection.pgconn.exec_(query.encode())
        assert result.error_message == b"", result.error_message
        for row in range(result.ntuples):
            texts = [_decoded(result.get_value(row, n)) for n in range(result.nfields)]
            found = zip(texts[1::3], texts[2::3], texts[3::3], strict=True)
            yield int(texts[0] or 0), [Expected(compared, text, flag == "t") for compared, text, flag in found]


def _decoded(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _base(column: TypedColumn) -> tuple[str, bool]:
    """The type under all domains, without its typmod, and whether it is an array."""
    name = column.under.removesuffix("[]")
    return name.partition("(")[0], column.under.endswith("[]")


_SEND = {"float4": "float4send", "float8": "float8send"}


def _compared(column: TypedColumn) -> str:
    base, is_array = _base(column)
    if column.sql_type in ("vector", "halfvec"):
        bits = (
            f"SELECT encode(float4send(x), 'hex') FROM unnest({column.name}::real[]) WITH ORDINALITY u(x, n) ORDER BY n"
        )
        return f"CASE WHEN {column.name} IS NOT NULL THEN ARRAY({bits}) END"
    if base not in _SEND:
        return f'"{column.name}"'
    if not is_array:
        return f"encode({_SEND[base]}({column.name}), 'hex')"
    bits = f"SELECT encode({_SEND[base]}(x), 'hex') FROM unnest({column.name}) WITH ORDINALITY u(x, n) ORDER BY n"
    return f"CASE WHEN {column.name} IS NOT NULL THEN ARRAY({bits}) END"


def _exceptional(column: TypedColumn) -> str:
    """What no Avro type holds: NaN and infinities of bounded numerics, years outside 1–9999, odd-shaped arrays."""
    base, is_array = _base(column)
    if column.name.startswith("text_"):
        return "false"
    if not is_array:
        return _unfit(base, column).format(value=f'"{column.name}"')
    element = _unfit(base, column).format(value="x")
    return (
        f'array_ndims("{column.name}") > 1 OR array_lower("{column.name}", 1) <> 1 '
        f'OR EXISTS (SELECT FROM unnest("{column.name}") x WHERE {element})'
    )


def _unfit(base: str, column: TypedColumn) -> str:
    if base in ("date", "timestamp", "timestamptz"):
        return f"({{value}} < '0001-01-01'::{base} OR {{value}} >= '10000-01-01'::{base} OR NOT isfinite({{value}}))"
    if base == "numeric" and "(" in column.under and column.digits_max <= 38:
        return "{value} IN ('NaN', 'Infinity', '-Infinity')"
    return "false"


def rendered(value: Any, avro: Any) -> str | None:
    """A value that an Avro reader found, as Postgres prints it; floats as the hexadecimal of their bits."""
    if value is None:
        return None
    if isinstance(avro, dict) and avro["type"] == "array":
        of = avro["items"] if isinstance(avro["items"], str) else avro["items"][1]
        return "{" + ",".join(_element(rendered(item, of)) for item in value) + "}"
    if isinstance(avro, dict) and avro["type"] == "map":
        return ", ".join(f"{_quoted(key)}=>{'NULL' if of is None else _quoted(of)}" for key, of in value.items())
    kind = avro if isinstance(avro, str) else avro.get("logicalType", avro["type"])
    return _RENDERED[kind](value)


def _element(text: str | None) -> str:
    """``array_out``: quoted where it could be mistaken."""
    if text is None:
        return "NULL"
    if text and text.upper() != "NULL" and not any(char in '"\\{}, \t\n\r\v\f' for char in text):
        return text
    return _quoted(text)


def _quoted(text: str) -> str:
    """As ``array_out`` and ``hstore_out`` do it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _timestamp(at: datetime) -> str:
    text = f"{at:%H:%M:%S}" + (f".{at.microsecond:06}".rstrip("0") if at.microsecond else "")
    return f"{at.date().isoformat()} {text}" + ("+00" if at.tzinfo else "")


_RENDERED: dict[str, Callable[[Any], str]] = {
    "boolean": lambda value: {True: "t", False: "f"}[value],
    "int": str,
    "long": str,
    "float": lambda value: struct.pack(">f", value).hex(),
    "double": lambda value: struct.pack(">d", value).hex(),
    "string": lambda value: value,
    "bytes": lambda value: "\\x" + value.hex(),
    "decimal": lambda value: f"{Decimal(value):f}",
    "date": lambda value: date.isoformat(value),
    "local-timestamp-micros": _timestamp,
    "timestamp-micros": _timestamp,
}
