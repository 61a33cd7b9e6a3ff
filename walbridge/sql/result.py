"""The rows of a query as text: a table for people, JSON lines, or CSV.

In: a connection and SQL. Out: lines, made while DuckDB runs the query, so that only some rows are in memory (I9).
DuckDB itself turns values into text: it has one for every type, while Python loses some (the year 294276, decimals).
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import duckdb

from walbridge.one_line import one_line
from walbridge.sql.scanned_columns import scanned_columns

TABLE, JSON, CSV = "table", "json", "csv"
_EXPRESSIONS = {
    TABLE: "CAST(COLUMNS(*) AS VARCHAR)",
    JSON: "CAST(to_json(COLUMNS(*)) AS VARCHAR)",
    CSV: "CAST(COLUMNS(*) AS VARCHAR)",
}
SHOWN_MAX = 1_000
"""At most so many rows of a table for people, whose columns are as wide as their longest value."""
_WIDTH_MAX = 60
"""A longer value is shown whole, and moves the columns behind it."""
_FETCH_ROWS = 256
_NUMBER = re.compile(r"-?\d[\d.]*(e[+-]?\d+)?")
_NO_JSON = re.compile(r"NaN|Infinity")
_TO_QUOTE = re.compile(r'[",\r\n]')

Row = Sequence[str | None]


@dataclass(frozen=True, slots=True)
class Result:
    """Rows of text, some at a time."""

    columns: Sequence[str]
    chunks: Iterator[Sequence[Row]]


def result(
    connection: duckdb.DuckDBPyConnection, text: str, form: str, limit_columns: Callable[[set[str]], None]
) -> Result | None:
    """Run all statements; the rows of the last one, None where it has none.

    Args:
        limit_columns: called with the columns that the query reads, where the text is a single query.
    """
    statements = connection.extract_statements(text)
    for statement in statements[:-1]:
        connection.execute(statement)
    if not statements:
        return None
    last = statements[-1]
    if last.type not in (duckdb.StatementType.SELECT, duckdb.StatementType.MULTI):
        connection.execute(last)
        if last.expected_result_type != [duckdb.ExpectedResultType.QUERY_RESULT]:
            return None
        return Result(_columns(connection), _chunks(connection, as_json=form == JSON))
    # On lines of its own: it may end with a comment.
    query = f"SELECT {_EXPRESSIONS[form]} FROM (\n{last.query.strip().rstrip(';')}\n) AS result"
    if len(statements) == 1 and last.type is duckdb.StatementType.SELECT:
        columns = scanned_columns(connection, query)
        if columns is not None:
            limit_columns(columns)
    connection.execute(query)
    return Result(_columns(connection), _chunks(connection))


def _columns(connection: duckdb.DuckDBPyConnection) -> list[str]:
    return [str(column[0]) for column in connection.description or ()]


def _chunks(connection: duckdb.DuckDBPyConnection, *, as_json: bool = False) -> Iterator[Sequence[Row]]:
    """``as_json``: the values are plain text, as of EXPLAIN, and have to be made JSON."""
    while rows := connection.fetchmany(_FETCH_ROWS):
        yield [[_text(value, as_json=as_json) for value in row] for row in rows]


def _text(value: object, *, as_json: bool) -> str | None:
    if value is None:
        return None
    return json.dumps(str(value), ensure_ascii=False) if as_json else str(value)


def json_lines(found: Result) -> Iterator[str]:
    """One JSON object for each row."""
    names = [json.dumps(name, ensure_ascii=False) for name in found.columns]
    for row in chain.from_iterable(found.chunks):
        values = ("null" if value is None else _standard(value) for value in row)
        yield "{" + ", ".join(f"{name}: {value}" for name, value in zip(names, values, strict=True)) + "}"


def _standard(value: str) -> str:
    """JSON has no NaN: it is text there, as in Postgres' own JSON."""
    if not _NO_JSON.search(value):
        return value
    return json.dumps(json.loads(value, parse_constant=str), ensure_ascii=False)


def csv_lines(found: Result) -> Iterator[str]:
    """CSV as Postgres' COPY writes it: null is an empty field, an empty text is in quotes."""
    yield ",".join(map(_csv, found.columns))
    for row in chain.from_iterable(found.chunks):
        yield ",".join(map(_csv, row))


def _csv(value: str | None) -> str:
    if value is None:
        return ""
    return '"' + value.replace('"', '""') + '"' if value == "" or _TO_QUOTE.search(value) else value


def table_lines(found: Result) -> Iterator[str]:
    """Columns under their names, and a last line that says how many rows there are, or that there are more."""
    rows: list[Sequence[str]] = []
    for row in chain.from_iterable(found.chunks):
        if len(rows) == SHOWN_MAX:
            break
        rows.append(["NULL" if value is None else one_line(value) for value in row])
    else:
        yield from _aligned(list(map(one_line, found.columns)), rows)
        yield f"({len(rows)} row{'' if len(rows) == 1 else 's'})"
        return
    yield from _aligned(list(map(one_line, found.columns)), rows)
    yield f"(the first {SHOWN_MAX:,} rows; --csv and --json print all)"


def _aligned(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths, are_numbers = [], []
    for index, name in enumerate(columns):
        values = [row[index] for row in rows]
        widths.append(max(len(name), *(len(value) for value in values if len(value) <= _WIDTH_MAX), 0))
        are_numbers.append(all(value == "NULL" or _NUMBER.fullmatch(value) for value in values))
    yield _line(columns, widths, [False] * len(columns))
    yield "-+-".join("-" * width for width in widths)
    for row in rows:
        yield _line(row, widths, are_numbers)


def _line(values: Sequence[str], widths: Sequence[int], to_the_right: Sequence[bool]) -> str:
    cells = [
        value.rjust(width) if right else value.ljust(width)
        for value, width, right in zip(values, widths, to_the_right, strict=True)
    ]
    return " | ".join(cells).rstrip()
