"""The lake's side: the newest published cut, and every table's rows at that cut's version.

In: the lake's path. Out: ``PublishedCut``, fingerprints, rows. Read with delta-rs in record batches, so memory is
bounded by a batch. Neither Spark nor the reader of ``walbridge.lake`` has a part in it, also where they would say the
same: nobody judges his own work.
"""

import dataclasses
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

from walbridge.schemas.errors import OperatorError, foreign_lake
from walbridge.schemas.setting_checks.lake_path import refuse_misread
from walbridge.schemas.topics import LAKE_STRUCT
from walbridge.verify.comparison.differences import Row
from walbridge.verify.comparison.fingerprint import Fingerprint, buckets_of
from walbridge.verify.errors import TableNotCompared
from walbridge.verify.texts.lake_text import Texts, canonical_texts, row_digests, with_exceptions, with_lengths

CUTS = "_cuts"
_DROPPED = "dropped"
"""State of what is no table any more: only its folder waits to be deleted."""
_BATCH_BYTES = 32 * 2**20
_BATCH_ROWS_MAX = 8192
_MANIFEST_ROWS_READ = 64
_ESCAPED = re.compile("(?:_u[0-9a-f]{4})+")
_READ_OPTIONS = {
    # Spark's default is INT96, whose nanoseconds would wrap outside the years 1677 to 2262.
    "datafusion.execution.parquet.coerce_int96": "us",
}
_READABLE = (
    "see that [lake] path names this lake, that this user may read it, and that neither its files nor its log were "
    "vacuumed before [lake] cut_retention_hours; walbridge copy TABLE makes a table of damaged files anew"
)


@dataclass(frozen=True, slots=True)
class TableAtCut:
    """A table as a published cut names it. ``version`` is the Delta version."""

    relation_id: int
    namespace: str
    name: str
    path: str
    version: int
    state: str
    since: int | None

    @property
    def qualified_name(self) -> str:
        """``schema.table``."""
        return f"{self.namespace}.{self.name}"


@dataclass(frozen=True, slots=True)
class PublishedCut:
    """A published row of ``_cuts``."""

    sequence: int
    end_lsn: int
    tables: tuple[TableAtCut, ...]

    def table(self, relation_id: int, namespace: str, name: str) -> TableAtCut | None:
        """That of a relation, whatever it was called then; else one of that name, which may be gone in the source."""
        named = [table for table in self.tables if (table.namespace, table.name) == (namespace, name)]
        return next((table for table in self.tables if table.relation_id == relation_id), named[-1] if named else None)


class Lake:
    """A pipeline's lake. ``storage_options`` as delta-rs takes them; ``beat``: for each batch of a table; may raise."""

    def __init__(
        self, path: str, pipeline: str, storage_options: Mapping[str, str], beat: Callable[[], None] = lambda: None
    ) -> None:
        refuse_misread(path)
        self._path = path.rstrip("/")
        self._pipeline = pipeline
        self._beat = beat
        self._options = dict(storage_options)

    def newest_cut(self) -> PublishedCut | None:
        """The newest published cut, None where none is published yet.

        Raises:
            OperatorError: it cannot be read, or is another pipeline's.
        """
        try:
            found = self._newest_published()
        except TableNotFoundError:
            return None
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise _unreadable(CUTS, error) from error
        if found is None:
            return None
        pipeline, cut = found
        if pipeline != self._pipeline:
            raise foreign_lake(self._path, pipeline, self._pipeline)
        return cut

    def _newest_published(self) -> tuple[str, PublishedCut] | None:
        """Whose it is, and the cut. File statistics tell which few files hold the newest rows."""
        manifest = self._open(CUTS)
        first = _newest_sequence(manifest) - _MANIFEST_ROWS_READ
        span = _MANIFEST_ROWS_READ
        while True:
            row = _newest_published(manifest, first)
            if row is not None or first < 0:
                return row
            span *= 4
            first -= span

    def table(self, table: TableAtCut) -> "TableReader":
        """Open a table at its version.

        Raises:
            TableNotCompared: the lake does not hold that version.
        """
        try:
            return TableReader(self._open(table.path, table.version), table.path, self._beat)
        except (DeltaError, OSError, OverflowError) as error:  # no version is below 0
            raise _unreadable(table.path, error) from error

    def _open(self, path: str, version: int | None = None) -> DeltaTable:
        return DeltaTable(f"{self._path}/{path}", version=version, storage_options=self._options)


class TableReader:
    """One table at one version, streamed."""

    def __init__(self, table: DeltaTable, path: str, beat: Callable[[], None]) -> None:
        self._table = table
        self._path = path
        self._beat = beat
        fields = [column for column in table.schema().fields if column.name != LAKE_STRUCT]
        self._lake_names = {
            name: column.name
            for column in fields
            if _unescaped(column.name) == (name := column.metadata.get("pg.name", column.name))
            or "pg.name" not in column.metadata
        }

    @property
    def columns(self) -> list[str]:
        """Postgres names of the columns that the lake has; none that is under another column's name,
        since readers go by the lake's."""
        return list(self._lake_names)

    def fingerprint(self, columns: Sequence[str], digits: int) -> Fingerprint:
        """Counts and sums of all rows. ``columns``: the source's, in its order; an absent one is null."""
        fingerprint = Fingerprint(digits)
        for batch in self._batches(columns, with_position=False):
            fingerprint.add_digests(_digests(batch, columns)[0])
        return fingerprint

    def rows(
        self, columns: Sequence[str], keys: Sequence[str], digits: int, buckets: Collection[int]
    ) -> Iterator[tuple[str, Row]]:
        """Key and row of every row in the buckets; without keys the digest is the key."""
        wanted = np.zeros(16**digits, dtype=bool)
        wanted[list(buckets)] = True
        for batch in self._batches(columns, with_position=True):
            digests, texts = _digests(batch, columns)
            chosen = np.flatnonzero(wanted[buckets_of(digests, digits)])
            if not len(chosen):
                continue
            at = pa.array(chosen)
            names = [texts[columns.index(key)].take(at).to_pylist() for key in keys]
            lsns = batch.column("commit_lsn").take(at).to_pylist()
            ordinals = batch.column("ordinal").take(at).to_pylist()
            for index, row in enumerate(chosen):
                digest = digests[row].astype(">u8").tobytes()
                key = "".join(name[index] for name in names) if keys else digest.hex()
                yield key, Row(digest, f"{lsns[index]}/{ordinals[index]}")

    def _batches(self, columns: Sequence[str], with_position: bool) -> Iterator[pa.RecordBatch]:
        """Batches of the columns, numbered, then the exceptional texts, then the position."""
        selected = [
            f"{_quoted(self._lake_names[name]) if name in self._lake_names else 'NULL'} AS c{index}"
            for index, name in enumerate(columns)
        ]
        parts = ("exceptional", "commit_lsn", "ordinal") if with_position else ("exceptional",)
        selected += [f"get_field({_quoted(LAKE_STRUCT)}, '{part}') AS {part}" for part in parts]
        query = QueryBuilder({"datafusion.execution.batch_size": str(_batch_rows(self._table)), **_READ_OPTIONS})
        try:
            stream = query.register("source", self._table).execute(f"SELECT {', '.join(selected)} FROM source")
            for batch in pa.RecordBatchReader.from_stream(stream):
                self._beat()
                yield batch
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise _unreadable(self._path, error) from error


def _digests(batch: pa.RecordBatch, columns: Sequence[str]) -> tuple[np.ndarray[Any, np.dtype[np.uint64]], list[Texts]]:
    exceptions = _exceptions(batch.column("exceptional"))
    texts = []
    for index, name in enumerate(columns):
        text = canonical_texts(batch.column(index))
        if name in exceptions:
            text = with_exceptions(text, batch.column(index).type, exceptions[name])
        texts.append(with_lengths(text))
    return row_digests(texts, batch.num_rows), texts


def _exceptions(maps: pa.Array) -> dict[str, dict[int, str]]:
    """Text by row, by column."""
    found: dict[str, dict[int, str]] = {}
    if maps.null_count == len(maps):
        return found
    for row, entries in enumerate(maps.to_pylist()):
        for name, text in entries or ():
            found.setdefault(name, {})[row] = text
    return found


def _batch_rows(table: DeltaTable) -> int:
    """Rows of a batch: wide rows come in small batches. The factor is for compression."""
    actions = pa.table(table.get_add_actions(flatten=True))
    rows = sum(count or 0 for count in actions["num_records"].to_pylist())
    size = sum(actions["size_bytes"].to_pylist()) * 4
    return max(16, min(_BATCH_ROWS_MAX, _BATCH_BYTES * rows // max(size, 1) or _BATCH_ROWS_MAX))


def _newest_sequence(manifest: DeltaTable) -> int:
    actions = pa.table(manifest.get_add_actions(flatten=True))
    if "max.sequence" not in actions.column_names:
        return 0
    return max((sequence or 0 for sequence in actions["max.sequence"].to_pylist()), default=0)


def _newest_published(manifest: DeltaTable, first_sequence: int) -> tuple[str, PublishedCut] | None:
    stream = (
        QueryBuilder()
        .register("cuts", manifest)
        .execute(
            "SELECT pipeline, sequence, end_lsn, tables FROM cuts WHERE kind = 'published'"
            f" AND sequence >= {first_sequence} ORDER BY sequence DESC LIMIT 1"
        )
    )
    rows = pa.RecordBatchReader.from_stream(stream).read_all().to_pylist()
    if not rows:
        return None
    fields = [field.name for field in dataclasses.fields(TableAtCut)]
    there = [table for table in rows[0]["tables"] if table["state"] != _DROPPED]
    tables = tuple(TableAtCut(**{name: table[name] for name in fields}) for table in there)
    return rows[0]["pipeline"], PublishedCut(rows[0]["sequence"], rows[0]["end_lsn"], tables)


def _unescaped(lake_name: str) -> str:
    """What ``lake_column_names`` made this name of: it escapes characters as UTF-16."""
    return _ESCAPED.sub(
        lambda found: bytes.fromhex(found[0].replace("_u", "")).decode("utf-16-be", "surrogatepass"), lake_name
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _unreadable(path: str, error: Exception) -> OperatorError:
    what = f"lake table {path} cannot be read: {type(error).__name__}"
    return OperatorError(what, remedy=_READABLE) if path == CUTS else TableNotCompared(what, remedy=_READABLE)
