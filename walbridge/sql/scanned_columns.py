"""Which columns a query reads, as DuckDB plans it.

In: a connection whose views are streams of Arrow, and a query. Out: the names of all columns that any scan hands on;
None where the plan does not say. DuckDB reads all columns of a stream, whichever it needs: whoever makes the stream
has to leave the others out.
"""

import json
from collections.abc import Iterator
from typing import Any

import duckdb

_SCAN = "PYTHON_ARROW_SCAN"


def scanned_columns(connection: duckdb.DuckDBPyConnection, query: str) -> set[str] | None:
    """The names, over all tables. A name with a line break comes in parts; a field's name follows its column's.

    Raises:
        duckdb.Error: the query is not valid.
    """
    plans = connection.execute(f"EXPLAIN (FORMAT JSON) {query}").fetchall()
    found: set[str] = set()
    for scan in (scan for plan in plans for root in json.loads(plan[1]) for scan in _scans(root)):
        projections = scan.get("extra_info", {}).get("Projections")
        if projections is None:
            return None
        found |= {projections} if isinstance(projections, str) else set(projections)
    return found


def is_part(scanned: str, column: str) -> bool:
    """Whether a name in the plan may be this column, or a field of it. It may be so of two columns."""
    return scanned == column or scanned.startswith((f"{column}.", f'"{column}".'))


def _scans(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if node["name"] == _SCAN:
        yield node
    for child in node["children"]:
        yield from _scans(child)
