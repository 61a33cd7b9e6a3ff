"""One table of a lake at one version, as streams of Arrow batches.

In: an entry of a published row. Out: any number of readers, each from the first row on. Rows that Spark has marked as
deleted beside their files are left out: DataFusion reads the table, through delta-rs, and not Arrow's own scanner,
which would refuse such a table. A version never changes, so every reader has the same rows (I8).

Columns have the source's names, which their metadata tells: in the lake a name may be an escaped one. Our own
struct comes last, whatever has been added to the table behind it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from walbridge.lake.batches import session_options
from walbridge.schemas.errors import OperatorError, WalbridgeError
from walbridge.schemas.topics import LAKE_STRUCT
from walbridge.spark_consumer.delta.empty_commits import refuse_to_readers
from walbridge.spark_consumer.errors import classified_error
from walbridge.spark_consumer.plan.manifest_row import TableEntry

_SOURCE_NAME = b"pg.name"


class LakeTable:
    """A table at its version of one published cut. Anything that takes the Arrow PyCapsule interface takes it as it is,
    and may read it twice: a bare ``RecordBatchReader`` would be empty then.
    """

    def __init__(self, lake: str, entry: TableEntry, storage_options: Mapping[str, str]) -> None:
        """Open it.

        Raises:
            OperatorError: the version cannot be read any more, or not by this user.
        """
        self.name, self.state, self.version, self.path = entry.qualified_name, entry.state, entry.version, entry.path
        with unreadable(f"lake table {entry.path}"):
            uri = f"{lake.rstrip('/')}/{entry.path}"
            self._delta = DeltaTable(uri, version=entry.version, storage_options=dict(storage_options) or None)
            refuse_to_readers(lake, entry)
        self._fields = _fields(self._delta)

    @property
    def schema(self) -> pa.Schema:
        """The columns, under the source's names; what Postgres says of each is in its metadata (``pg.type``, …)."""
        return pa.schema([field.with_name(name) for name, field in self._fields.items()])

    def select(self, columns: Sequence[str]) -> "LakeTable":
        """The same table with these columns alone, in this order: what is not asked for is not read.

        Raises:
            OperatorError: no such column.
        """
        if unknown := [name for name in columns if name not in self._fields]:
            raise OperatorError(
                f"table {self.name} has no column {', '.join(unknown)}", remedy=f"it has: {', '.join(self._fields)}"
            )
        selected = copy(self)
        selected._fields = {name: self._fields[name] for name in columns}
        return selected

    def reader(self) -> pa.RecordBatchReader:
        """A stream of all rows, in no order.

        Raises:
            OperatorError: the table's files cannot be read. Whoever takes batches meets it there, too.
        """
        selected = ", ".join(f"{_quoted(field.name)} AS {_quoted(name)}" for name, field in self._fields.items())
        with unreadable(f"lake table {self.path}"):
            query = QueryBuilder(session_options(self._delta)).register("lake", self._delta)
            stream = query.execute(f"SELECT {selected} FROM lake")
            # Where DataFusion reads text as a view, the table's own type is what was promised.
            batches = pa.RecordBatchReader.from_stream(stream).cast(self.schema)
        return pa.RecordBatchReader.from_batches(self.schema, _readable(batches, f"lake table {self.path}"))

    def __arrow_c_schema__(self) -> Any:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<lake table {self.name}, version {self.version}>"


def _readable(batches: pa.RecordBatchReader, what: str) -> Iterator[pa.RecordBatch]:
    """These batches; a file that is gone shows only once its rows are read."""
    with unreadable(what):
        yield from batches


def _fields(delta: DeltaTable) -> dict[str, pa.Field]:
    """The lake's fields by the source's names; a column of the source's that is called as our struct keeps the
    lake's name."""
    fields = list(pa.schema(delta.schema().to_arrow()))
    named = {_source_name(field): field for field in fields if field.name != LAKE_STRUCT}
    return named | {field.name: field for field in fields if field.name == LAKE_STRUCT}


def _source_name(field: pa.Field) -> str:
    name: str = (field.metadata or {}).get(_SOURCE_NAME, field.name.encode()).decode()
    return field.name if name == LAKE_STRUCT else name


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def unreadable(what: str) -> Iterator[None]:
    """A block whose failures to read are told as an operator's error."""
    try:
        yield
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise unreadable_error(what, error) from error


def unreadable_error(what: str, error: Exception) -> BaseException:
    """What an operator is told of a failure to read."""
    found = classified_error(error)
    if isinstance(found, WalbridgeError):
        return found
    return OperatorError(
        f"{what} cannot be read: {type(error).__name__}",
        remedy="see that the path names this lake, that this user may read it, and that neither its files nor its "
        "log were vacuumed before [lake] cut_retention_hours; walbridge copy TABLE makes a table of damaged files anew",
    )
