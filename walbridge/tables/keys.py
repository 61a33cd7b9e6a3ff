"""``walbridge copy TABLE --keys FILE``: asks the producer to read single rows of a table again.

In: a table, and a file of keys. Out: a request in the progress topic, durable when this returns. Postgres reads each
key and prints it again, so the request names keys as rows have them, and a mistake asks for nothing.
"""

import csv
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from walbridge.producer.guards.unfit.foreign_rows import refuse_foreign_rows
from walbridge.producer.postgres.connection import SqlConnection, connect_sql
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.postgres.table_reads.key_order import Bound, KeyOrder, KeyUnreadable, key_order, printed_keys
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.control.table_progress import CURRENT
from walbridge.schemas.control.table_request import KEYS_BYTES_MAX, TableRequest, key_json, read_until, to_copy
from walbridge.schemas.errors import OperatorError, copy_command
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of
from walbridge.tables.copy import CopyWait, Out, Say, as_json, chosen_table, follow, refuse_without_requests
from walbridge.tables.known import KnownTable
from walbridge.tables.read_tables import PipelineTables, read_tables
from walbridge.tables.request import write

LINE_S = 10.0
_AT_ONCE = 1000


def copy_keys(settings: Settings, name: str, file: Path, *, wait: bool, say: Say, out: Out | None = None) -> int:
    """Ask for the rows; 0 when the request is durable, with ``wait`` when the rows are in the topic.

    Raises:
        OperatorError: the name means no table that is current, or the file holds no keys of it.
        RetryableError: a server is away.
    """
    seen = read_tables(settings, needs_postgres=True)
    refuse_without_requests(settings, seen.progress)
    table = chosen_table(settings, name, seen)
    _refuse_other_than_current(table, seen.progress)
    with connect_sql(dsn_of(settings), "walbridge copy") as connection:
        refuse_foreign_rows(connection, settings, [_published(table, seen)])
        keys = list(dict.fromkeys(_keys(connection, _published(table, seen), file)))
    if sum(map(len, keys)) > KEYS_BYTES_MAX:
        raise OperatorError(
            f"{file} holds {len(keys):,} keys of {table.name}, and {KEYS_BYTES_MAX:,} bytes can be asked for at a time",
            remedy=f"split the file, and ask for the next part with --wait before it; or {copy_command(table.name)}",
        )
    request = TableRequest.of_keys(table.relation_id, keys, time.time_ns() // 1000)
    offset = write(settings, [request])
    say(f"{table.name}: {len(keys):,} keys asked for; the table stays current, and keys that it lacks are deleted")
    if not seen.producer_runs:
        say("walbridge produce does not run now: the rows are read when it does")
    waits = [KeysWait(table, offset)]
    code = follow(settings, waits, say, LINE_S) if wait else 0
    if out is not None:
        out(as_json(settings.name, waits, producer_runs=seen.producer_runs, keys=len(keys)))
    return code


class KeysWait(CopyWait):
    """A table of which rows are waited for."""

    def result(self, progress: Progress, *, is_published: bool = True) -> str | None:
        """As of any copy. The table is current all the while."""
        table_progress = progress.tables.get(self.table.relation_id)
        if (read_until(progress) or 0) <= self.offset:
            return None
        if table_progress is None:
            return "it is gone from the pipeline"
        if table_progress.state != CURRENT:
            return f"it is {table_progress.state}" + (f": {table_progress.why}" if table_progress.why else "")
        return None if table_progress.copy is not None else table_progress.why or ""


def _refuse_other_than_current(table: KnownTable, progress: Progress) -> None:
    state = "new" if table.progress is None else table.progress.state
    if state != CURRENT or table.relation_id in to_copy(progress):
        what = "is to be copied again" if state == CURRENT else f"is {state}"
        raise OperatorError(
            f"table {table.name} {what}: rows of a table that is current alone can be read again",
            remedy=f"{copy_command(table.name)}; a copy that goes on, or was asked for, reads all rows",
        )


def _published(table: KnownTable, seen: PipelineTables) -> PublishedTable:
    assert seen.postgres is not None
    found = [each for each in seen.postgres.published or () if each.relation_id == table.relation_id]
    if not found:
        raise OperatorError(f"table {table.name} is being altered", remedy="run the same command again")
    return found[0]


def _keys(connection: SqlConnection, table: PublishedTable, file: Path) -> Iterator[bytes]:
    order = key_order(connection, table.relation_id, table.column_names)
    if order is None:
        raise OperatorError(
            f"table {table.qualified_name} has no key that its rows can be read by",
            remedy=copy_command(table.qualified_name),
        )
    lines = list(_lines(file, order))
    if not lines:
        raise OperatorError(f"{file} holds no key", remedy="write one key on each line")
    for first in range(0, len(lines), _AT_ONCE):
        for bound in _printed(connection, order, lines[first : first + _AT_ONCE], file, first + 1):
            yield key_json(dict(zip(order.names, bound.values, strict=True)))


def _printed(
    connection: SqlConnection, order: KeyOrder, bounds: Sequence[Bound], file: Path, first: int
) -> Sequence[Bound]:
    try:
        return printed_keys(connection, order, bounds)
    except KeyUnreadable:
        if len(bounds) > 1:
            half = len(bounds) // 2
            before = _printed(connection, order, bounds[:half], file, first)
            return [*before, *_printed(connection, order, bounds[half:], file, first + half)]
    raise OperatorError(
        f"key {first:,} of {file} is none of ({', '.join(order.names)}) as Postgres reads it",
        remedy="write keys as COPY prints them WITH (FORMAT csv), without a header, one on each line, columns in "
        "the order of the key",
    )


def _lines(file: Path, order: KeyOrder) -> Iterator[Bound]:
    """CSV: one key on each line, columns in their order in the key. COPY's text format would not do, nor lines as they
    are: the one escapes backslashes, so that each bytea is read as another one, and the others hold no line end."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as text:
            for number, fields in enumerate(filter(None, csv.reader(text, strict=True)), 1):
                if len(fields) != len(order.names):
                    raise OperatorError(
                        f"key {number:,} of {file} has {len(fields)} values, and the key is ({', '.join(order.names)})",
                        remedy="write these columns in this order, as CSV: a value that holds a comma is put in "
                        "double quotes",
                    )
                yield Bound(tuple(fields))
    except OSError as error:
        raise OperatorError(f"{file} cannot be read: {error.strerror}", remedy="name a file of keys") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise OperatorError(
            f"{file} is no text of keys: {type(error).__name__}", remedy="write it in UTF-8, as CSV"
        ) from None
