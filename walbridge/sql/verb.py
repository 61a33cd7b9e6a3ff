"""``walbridge sql``: runs a query over the lake's tables at one LSN, and prints its rows.

In: settings, SQL, and an LSN or a time if given. Out: rows on stdout; on stderr the LSN that they belong to.
"""

import os
import sys
from collections.abc import Callable, Iterable

from walbridge.lake.table import unreadable
from walbridge.schemas.control.table_progress import ARCHIVE, CURRENT
from walbridge.schemas.errors import OperatorError, foreign_lake
from walbridge.schemas.position import format_lsn
from walbridge.schemas.properties import flatten
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.manifest.published import published_at
from walbridge.spark_consumer.plan.manifest_row import CutRow
from walbridge.sql.lake_catalog import LakeCatalog
from walbridge.sql.result import CSV, JSON, TABLE, csv_lines, json_lines, result, table_lines

_LINES = {TABLE: table_lines, JSON: json_lines, CSV: csv_lines}


def sql(
    settings: Settings, text: str, at: str | None, *, form: str, any_state: bool, say: Callable[[str], None]
) -> int:
    """Print the rows of the last statement. It ends quietly when whoever reads the output has closed it.

    Raises:
        OperatorError: nothing is published (by then), a table is not there or not current, or the SQL is not valid.
    """
    _refuse_undecodable(text)
    lake, options = settings.lake.path, flatten(settings.lake.storage_options)
    with unreadable(f"the lake at {lake}"):
        row = published_at(lake, at, storage_options=options)
    if row.pipeline != settings.name:
        raise foreign_lake(lake, row.pipeline, settings.name)
    states = {entry.state for entry in row.tables} if any_state else {CURRENT}
    catalog = LakeCatalog(lake, row, text, options, states)
    for name, table in catalog.tables.items():
        if table.state != CURRENT:
            state = "an archive" if table.state == ARCHIVE else table.state
            say(f"table {name} is {state}: it does not equal the source")
    with catalog.connected() as connection:
        found = result(connection, text, form, lambda columns: catalog.limit_columns(connection, columns))
        if found is not None:
            _print(_LINES[form](found))
    say(_heading(row))
    return 0


def _refuse_undecodable(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:  # Python keeps bytes that it cannot decode as surrogates
        raise OperatorError(
            "the query is no text in UTF-8", remedy="set the terminal, and what wrote the query, to UTF-8"
        ) from None


def _print(lines: Iterable[str]) -> None:
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would try to write the rest at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _heading(row: CutRow) -> str:
    time = "" if row.commit_time is None else f", committed {row.commit_time.isoformat(' ', 'seconds')}"
    return f"at {format_lsn(row.end_lsn)}{time}"
