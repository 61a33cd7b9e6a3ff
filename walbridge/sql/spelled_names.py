"""How a query spells the tables that it names, for lakes where two names differ in case only.

In: a query's text. Out: schema and name of each table, as the text spells them. DuckDB, which folds case, says which
names are tables; where it cannot parse the text, every name counts. Strings and comments hold no names.
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
    """The names of tables in the text, without their schemas; None where DuckDB cannot parse it."""
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        try:
            statements = connection.extract_statements(text)
            return {name for each in statements for name in connection.get_table_names(each.query)}
        except duckdb.Error:
            return None
