"""How a query spells the tables that it names, for lakes where two names differ in case only.

In: a query's text. Out: schema and name of each table, as they are written; DuckDB itself takes them for one. It tells
which names are of tables, as far as it reads the text without those; else every name counts. What stands in strings
and comments is no name.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

import duckdb

_NAME = r'"(?:[^"]|"")+"|[^\W\d][\w$]*'
_TOKEN = re.compile(
    rf"""
    --[^\n]* | /\*.*?\*/                          # comments
    | [eE]?'(?:[^']|'')*' | \$(\w*)\$.*?\$\1\$    # strings
    | (?P<chain>(?:{_NAME})(?:\s*\.\s*(?:{_NAME}))*)
    """,
    re.VERBOSE | re.DOTALL,
)
_PART = re.compile(_NAME)


def spelled_tables(text: str, default_schema: str) -> set[tuple[str, str]]:
    """Schema and name of each table that the text may mean."""
    tables = _named_by_duckdb(text)
    return {
        (schema, name)
        for chain in _chains(text)
        for schema, name in [(default_schema, chain[0]), *pairwise(chain)]
        if tables is None or name in tables
    }


def _chains(text: str) -> Iterator[list[str]]:
    for token in _TOKEN.finditer(text):
        if token["chain"]:
            yield [_unquoted(part) for part in _PART.findall(token["chain"])]


def _unquoted(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part


def _named_by_duckdb(text: str) -> set[str] | None:
    """Names without their schemas; None where it cannot tell."""
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        try:
            statements = connection.extract_statements(text)
            return {name for each in statements for name in connection.get_table_names(each.query)}
        except duckdb.Error:
            return None
