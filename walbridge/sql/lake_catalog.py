"""DuckDB over the tables of one published cut, under the source's schemas and names.

In: a published row and a query's text. Out: a connection with a view of each table that the text may mean, and an
``OperatorError`` where the query fails. Only tables whose names are in the text are opened, since a lake may have
hundreds. A table that readers are refused (I8) gets no view; if the query uses it, the error is that refusal.

Each scan of a view reads the table anew from its first row, as a stream: a query over tables larger than memory
spills to disk, not into memory (I9).
"""

import re
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

import duckdb

from walbridge.lake.table import LakeTable, unreadable_error
from walbridge.schemas.errors import OperatorError, copy_command
from walbridge.schemas.position import format_lsn
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry, by_name
from walbridge.spark_consumer.plan.readable_tables import UnreadableTable, readable_names, readable_tables
from walbridge.sql.scanned_columns import is_part
from walbridge.sql.spelled_names import spelled_tables

MEMORY = "1GB"
"""DuckDB's memory limit; a query may SET another memory_limit."""
DEFAULT_SCHEMA = "public"
"""The schema of a table that a query names without one, as in Postgres."""
_OF_DUCKDB = frozenset({"main", "memory", "system", "temp"})
"""Schemas and catalogues that each connection has. In ``main`` it looks for what the search path does not have."""
_NAMES_MAX = 20
_STREAM = "_walbridge_{}"
_FAILED_STREAM = re.compile(r"stream registered as '_walbridge_(\d+)\w*' failed")
_UNREAD = "walbridge has not read this column"
_IN_PYTHON = "read it in Python: walbridge.lake, see docs/lake.md"


class LakeCatalog:
    """The tables that a query's text may mean, at one cut."""

    def __init__(
        self, lake: str, row: CutRow, text: str, storage_options: Mapping[str, str], states: Collection[str]
    ) -> None:
        self._row, self._entries = row, by_name(row.tables)
        self.tables: dict[str, LakeTable] = {}
        self._refused: dict[str, OperatorError] = {}
        for name in _tables_named_in(self._entries, text):
            try:
                self._refuse_schema(name)
                entry = readable_tables(row, [name], states)[name]
                table = LakeTable(lake, entry, storage_options)
                _refuse_columns(table)
                self.tables[name] = table
            except OperatorError as refusal:
                self._refused[name] = refusal

    def _refuse_schema(self, name: str) -> None:
        """Refuse a table whose schema DuckDB has itself: where the table of the same name in public is refused or gone,
        DuckDB would take this one for it."""
        schema = self._entries[name].namespace.lower()
        if schema in _OF_DUCKDB:
            raise OperatorError(
                f"table {name} cannot be queried here: DuckDB has a schema {schema} of its own",
                remedy=_IN_PYTHON,
            )

    @contextmanager
    def connected(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A new connection with the views; DuckDB's errors become operator's errors.

        Raises:
            OperatorError: the query uses a table that does not exist or is refused, or it is not valid SQL.
        """
        with tempfile.TemporaryDirectory(prefix="walbridge-sql-") as scratch:
            # Nothing is fetched over the network that nobody has asked for.
            config: dict[str, str | bool | int | float | list[str]]
            config = {"memory_limit": MEMORY, "temp_directory": scratch, "autoinstall_known_extensions": "false"}
            with duckdb.connect(config=config) as connection:
                try:
                    self._make_views(connection)
                    yield connection
                except duckdb.Error as error:
                    raise self._classified(error) from error

    def _make_views(self, connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET python_enable_replacements = false")  # a name is a table, never a variable of ours
        connection.execute(f"CREATE SCHEMA {DEFAULT_SCHEMA}")
        connection.execute(f"SET search_path = '{DEFAULT_SCHEMA}'")
        for number, (name, table) in enumerate(self.tables.items()):
            stream = _STREAM.format(number)
            connection.register(stream, table)
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(self._entries[name].namespace)}")
            connection.execute(f"CREATE VIEW {self._view(name)} AS SELECT * FROM {stream}")

    def limit_columns(self, connection: duckdb.DuckDBPyConnection, scanned: Collection[str]) -> None:
        """Read only the columns that a plan of DuckDB names; all columns of all tables where it names something else.

        The views stay what they were, so that a query means what it meant. A column that is not read is an expression
        that fails where it is evaluated: were one needed after all, the query would fail and not answer wrongly.
        """
        columns = {column for table in self.tables.values() for column in table.schema.names}
        meant = {name: {column for column in columns if is_part(name, column)} for name in scanned}
        if not all(meant.values()):
            return
        wanted = set().union(*meant.values())
        for number, (name, table) in enumerate(self.tables.items()):
            kept = [column for column in table.schema.names if column in wanted]
            if not kept or len(kept) == len(table.schema.names):
                continue
            types = connection.execute(f"SELECT * FROM {_STREAM.format(number)} LIMIT 0").description or ()
            stream = _STREAM.format(number) + "_selected"
            connection.register(stream, table.select(kept))
            shown = [
                _quoted(column) if column in kept else f"CAST(error('{_UNREAD}') AS {kind}) AS {_quoted(column)}"
                for column, (_, kind, *_) in zip(table.schema.names, types, strict=True)
            ]
            connection.execute(f"CREATE OR REPLACE VIEW {self._view(name)} AS SELECT {', '.join(shown)} FROM {stream}")

    def _view(self, name: str) -> str:
        entry = self._entries[name]
        return f"{_quoted(entry.namespace)}.{_quoted(entry.name)}"

    def _classified(self, error: duckdb.Error) -> BaseException:
        is_of_a_name = isinstance(error, duckdb.CatalogException)
        message = str(error)
        if failed := _FAILED_STREAM.search(message):
            table = list(self.tables.values())[int(failed[1])]
            return unreadable_error(f"lake table {table.path}", error)
        if _UNREAD in message:
            return OperatorError(
                "DuckDB needs columns that its plan did not name",
                remedy="write SELECT 1; before the query: then all columns are read",
            )
        for name, refusal in self._refused.items():
            if is_of_a_name and self._entries[name].name.lower() in message.lower():
                return self._refusal(name, refusal)
        what = f"DuckDB refuses the query: {_first_paragraph(message)}"
        if is_of_a_name:
            return OperatorError(what, remedy=f"at {format_lsn(self._row.end_lsn)} the lake has: {self._names()}")
        return OperatorError(what, remedy="mend the query; tables have the source's names: schema.table")

    def _refusal(self, name: str, refusal: OperatorError) -> OperatorError:
        """The refusal that all readers get, with a remedy that fits ``walbridge sql``."""
        entry = self._entries[name]
        if not isinstance(refusal, UnreadableTable) or entry.version is None:
            return refusal
        remedy = f"copy it again: {copy_command(name)}; or leave it out, or accept its rows with --any-state"
        return OperatorError(refusal.what, remedy)

    def _names(self) -> str:
        names = sorted(readable_names(self._entries))
        more = f" and {len(names) - _NAMES_MAX} more: walbridge tables" if len(names) > _NAMES_MAX else ""
        return ", ".join(names[:_NAMES_MAX]) + more or "no table"


def _refuse_columns(table: LakeTable) -> None:
    """Refuse columns that differ in case only: DuckDB would rename one, and answer with the other's values."""
    by_lower: dict[str, str] = {}
    for column in table.schema.names:
        other = by_lower.setdefault(column.lower(), column)
        if other != column:
            raise OperatorError(
                f"table {table.name} cannot be queried here: DuckDB takes its columns {other} and {column} for one",
                remedy=f"{_IN_PYTHON}, and give DuckDB table.select([...]) with one of them",
            )


def _tables_named_in(entries: Mapping[str, TableEntry], text: str) -> list[str]:
    """The tables whose names are in the text, quoted or not: every table that the query can use, and perhaps more.

    DuckDB does not tell names apart that differ in case only. Of two such tables the one that the text spells is taken.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for name, entry in entries.items():
        if _with_doubled_quotes(entry.name).lower() in text.lower():
            found.setdefault((entry.namespace.lower(), entry.name.lower()), []).append(name)
    alone = [names[0] for names in found.values() if len(names) == 1]
    alike = {key: names for key, names in found.items() if len(names) > 1}
    spelled = spelled_tables(text, DEFAULT_SCHEMA) if alike else set()
    meant = {key: names for key, names in alike.items() if any(_folded(table) == key for table in spelled)}
    return [*alone, *(_as_spelled(names, entries, spelled) for names in meant.values())]


def _folded(table: tuple[str, str]) -> tuple[str, str]:
    return table[0].lower(), table[1].lower()


def _as_spelled(names: list[str], entries: Mapping[str, TableEntry], spelled: set[tuple[str, str]]) -> str:
    """The one of these tables that the text spells; refused if the text spells several."""
    own = {(entries[name].namespace, entries[name].name): name for name in names}
    meant = {table for table in spelled if _folded(table) == _folded(next(iter(own)))}
    if len(meant) != 1 or not meant <= own.keys():
        raise OperatorError(
            f"tables {' and '.join(sorted(names))} differ in case only: DuckDB takes them for one",
            remedy="name one of them as it is written, in quotes; or read both with walbridge.lake, see docs/lake.md",
        )
    return own[meant.pop()]


def _with_doubled_quotes(name: str) -> str:
    """A name as SQL writes it between double quotes."""
    return name.replace('"', '""')


def _quoted(name: str) -> str:
    return f'"{_with_doubled_quotes(name)}"'


def _first_paragraph(message: str) -> str:
    """The message without its excerpt of the query, and without DuckDB's guesses at other names."""
    return " ".join(message.partition("\n\n")[0].partition("\nDid you mean")[0].split())
