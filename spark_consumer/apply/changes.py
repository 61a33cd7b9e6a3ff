"""Applies a segment's events in one commit to a table that has the segment's shape.

In: the plan's records, a segment, the table at its head. Out: one commit, or none where there is
nothing to do. Rows cross from Spark to delta-rs as Arrow slices, through a ``Spool`` (I9).
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from walbridge.schemas.errors import TableError
from walbridge.spark_consumer.apply.appliers import Appliers
from walbridge.spark_consumer.apply.arrow_spool import Spool, spooled
from walbridge.spark_consumer.apply.equal_rows import exchanged, numbered, rows_that_come, rows_that_go
from walbridge.spark_consumer.apply.existence import Existence, expected_matches, refuse_other_matches
from walbridge.spark_consumer.apply.frame_writer import (
    FoldSummary,
    FrameWriter,
    OtherOperation,
    not_deleted,
    of_operations,
)
from walbridge.spark_consumer.apply.key_bounds import KeyBounds
from walbridge.spark_consumer.apply.merge import key_merge, keyless_merge, missing_sql, same_key
from walbridge.spark_consumer.apply.unknown_values import complete_unknown, refuse_missing
from walbridge.spark_consumer.delta.columns import LakeField, arrow_schema
from walbridge.spark_consumer.delta.commit import Commit, Matches
from walbridge.spark_consumer.delta.scratch_table import scratch_table
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.errors import FIND_THE_WRITER, classifying_errors
from walbridge.spark_consumer.fold import keyless
from walbridge.spark_consumer.fold.columns.avro_bytes import NotPlain
from walbridge.spark_consumer.fold.fold import first_key_name
from walbridge.spark_consumer.fold.schema_join import place_name, refuse_malformed
from walbridge.spark_consumer.fold.segment_rows import SegmentRows
from walbridge.spark_consumer.fold.shape import STRUCT, TableShape
from walbridge.spark_consumer.kafka.change_reader import TableRecords
from walbridge.spark_consumer.kafka.slices import persisted
from walbridge.spark_consumer.plan.plan import Segment


def write_changes(
    table: LakeTable,
    records: TableRecords,
    shape: TableShape,
    segment: Segment,
    commit: Commit,
    existence: Existence = Existence.UNKNOWN,
    appliers: Appliers | None = None,
) -> None:
    """Apply one segment.

    Raises:
        TableError: undecodable records, or values that cannot be known.
        OperatorError: a lake that cannot be written.
        RetryableError: the broker is away.
    """
    with closing(SegmentRows(records, shape, segment)) as found:
        changes = SegmentChanges(table, found, shape, segment, commit, existence, appliers or Appliers())
        if found.volume.rows == 0:
            if segment.empties:
                changes.empty()
            return
        try:
            with classifying_errors():
                changes.apply()
        except NotPlain:
            # Nothing is written yet: all rows are on the driver's disk before the first is written.
            one_by_one = replace(records, spooled=None)
            write_changes(table, one_by_one, shape, segment, commit, existence, appliers)
        except (PySparkException, Py4JError):
            refuse_malformed(records.frame(), shape.relation)
            raise


def _as_table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


@dataclass(frozen=True)
class SegmentChanges:
    """One segment on its way into the table."""

    table: LakeTable
    found: SegmentRows
    shape: TableShape
    segment: Segment
    commit: Commit
    existence: Existence = Existence.UNKNOWN
    appliers: Appliers = field(default_factory=Appliers)

    def apply(self) -> None:
        """Apply the segment's records, of which there is at least one."""
        if self.segment.is_copied or not (self.shape.key_places or self.shape.is_keyless):
            self.append()
        elif self.shape.is_keyless:
            self.apply_row_deltas()
        else:
            self.merge()

    def empty(self) -> None:
        """Leave the table without rows."""
        self._replace(lambda: iter(()))

    def append(self) -> None:
        """Append copied rows, or inserts into a table without a key."""
        allowed = ["r"] if self.segment.is_copied else ["c", "r"]
        if self._by_executors:
            try:
                self._add_frame(of_operations(self.found.unfolded_frame(), allowed))
            except OtherOperation:
                raise self._unexpected(allowed) from None
            return
        schema = self._schema()
        with spooled(schema, self.found.unfolded(schema)) as rows:
            # All rows are checked before the first is written: an append is one commit.
            for batch in rows.batches():
                ops = pc.struct_field(batch.column("change"), "op")
                if not pc.all(pc.is_in(ops, pa.array(allowed)), min_count=0).as_py():
                    raise self._unexpected(allowed)
            self._add(rows)

    def merge(self) -> None:
        """Merge changes of rows with a key."""
        schema = self._schema(*self._fold_fields())
        if not (self._by_executors and (self.segment.empties or self.existence is Existence.TRUSTED)):
            self._merge_slices(self.found.folded_by_key(schema), schema)
            return
        with persisted(self.found.frame_by_key()) as rows:
            folded = FoldSummary.of(rows)
            # Executors only add rows. Rows that the table holds, or must complete, are merged.
            if folded.needs_table or (folded.held and not self.segment.empties):
                self._merge_slices(self.found.persisted_by_key(rows, schema), schema)
            else:
                self._add_frame(not_deleted(rows))

    def _merge_slices(self, slices: Iterator[pa.Table], schema: pa.Schema) -> None:
        with spooled(schema, slices) as rows:
            expected = expected_matches(rows)
            if not self._needs_chains(rows):
                self._write_folded(rows, expected)
                return
        with spooled(schema, self.found.folded_by_chain(schema)) as rows:
            # A table that the segment empties completes no row.
            base = None if self.segment.empties else self.table
            completed = complete_unknown(base, rows, self.shape, may_miss=self.segment.copy_goes_on)
            with spooled(rows.schema, completed) as complete:
                # ``is_new`` of a chain is that of its first key, not of the key that the row has now.
                self._merge_folded(complete, expected, by_operation=False)

    def _write_folded(self, rows: Spool, expected: Matches | None) -> None:
        """Write folded rows without chains of key changes; they are appended if all of them are certainly new."""
        if self.existence is not Existence.TRUSTED or self.segment.empties or expected is None or expected.held:
            self._merge_folded(rows, expected)
        elif expected.lacked:
            self._add(rows, _not_deleted)

    def _merge_folded(self, rows: Spool, expected: Matches | None, *, by_operation: bool = True) -> None:
        unknown = sum(_incomplete_rows(batch).num_rows for batch in rows.batches())
        if self.segment.empties:
            if not self.segment.copy_goes_on:
                refuse_missing(unknown, self.shape)
            self._replace(lambda: (_complete_rows(_not_deleted(batch)) for batch in rows.batches()))
            return
        if rows.rows == 0:
            return
        if unknown and not self.segment.copy_goes_on:
            self._refuse_unknown_of_missing_rows(rows)
        is_counted = expected is not None and self.existence is not Existence.UNKNOWN
        by_operation = by_operation and is_counted
        bounds = KeyBounds.of(rows.batches(), self.shape)
        merge = partial(
            key_merge,
            self.shape,
            with_unknown=unknown > 0,
            inserts_unknown=not self.segment.copy_goes_on,
            by_operation=by_operation,
            inserts_any=not by_operation or expected is None or expected.lacked > 0,
            bounds=bounds,
        )
        # The commit holds the expected counts: if the job is killed right after it, the next one compares them.
        commit = replace(self.commit, expected=expected) if is_counted else self.commit
        found = self.appliers.merge(
            self.table,
            rows,
            bounds,
            lambda dialect: merge(dialect=dialect),
            commit,
            # No heap has room for rows of many megabytes, and Spark compares no maps.
            by_driver=not self.found.has_no_large_values or self.shape.has_map_key,
        )
        if expected is not None and is_counted:
            refuse_other_matches(expected, found, self.shape.relation.table.qualified_name)

    def _refuse_unknown_of_missing_rows(self, rows: Spool) -> None:
        """Refuse rows with unknown columns that the lake does not hold: inserted, they would have nulls (I7)."""
        with scratch_table(rows.schema, (_incomplete_rows(batch) for batch in rows.batches())) as source:
            missing = self.table.query(missing_sql(same_key(self.shape)), source).read_all()
        refuse_missing(missing.column(0)[0].as_py(), self.shape)

    def apply_row_deltas(self) -> None:
        """Apply changes of rows without a key: each removes or adds one of several equal rows."""
        schema = self._schema(pa.field("net", pa.int32()))
        with spooled(schema, self.found.row_deltas(schema)) as rows:
            gone = sum(rows_that_go(batch).num_rows for batch in rows.batches())
            if gone == 0:
                self._add(rows, rows_that_come)
            elif self.segment.empties:
                raise self._too_few(gone)
            else:
                self._exchange(rows)

    def _exchange(self, rows: Spool) -> None:
        """For each distinct row of which some go: delete all equal ones, add again those that stay, in one commit."""
        going = self._schema(pa.field("net", pa.int32()), pa.field("number", pa.int64()))
        with scratch_table(going, numbered(rows)) as source:
            missing = self.table.query(keyless.missing_rows_sql(self.shape), source).read_all().column(0)[0].as_py()
            if missing:
                raise self._too_few(missing)
            kept = self.table.query(keyless.kept_rows_sql(self.shape), source)
            marked = self._schema(pa.field("gone", pa.bool_()))
            with spooled(marked, exchanged(rows, kept)) as all_rows:
                merge = keyless_merge(self.shape, keyless.same_row(self.shape))
                self.table.merge(merge, all_rows.reader(), self.commit)

    @property
    def _by_executors(self) -> bool:
        wanted = self.found.has_no_large_values and self.appliers.writes_by_executors(self.found.volume)
        # Records on its disk the driver decodes and writes quicker than they would be read again.
        return wanted and self.found.records.spooled is None

    def _add_frame(self, rows: DataFrame) -> None:
        self.appliers.log_executors_write(self.table, self.found.volume)
        FrameWriter(self.table, self.shape, self.commit).add(rows, empties=self.segment.empties)

    def _add(self, rows: Spool, of: Callable[[pa.RecordBatch], pa.Table] = _as_table) -> None:
        if self.segment.empties:
            self._replace(lambda: map(of, rows.batches()))
        elif rows.rows:
            self.table.append(self._in_lake(map(of, rows.batches()), self.table.fields), self.commit)

    def _replace(self, rows: Callable[[], Iterator[pa.Table]]) -> None:
        self.table.overwrite(self._in_lake(rows(), self.shape.fields), self.commit)

    def _in_lake(self, rows: Iterator[pa.Table], fields: list[LakeField]) -> pa.RecordBatchReader:
        """The rows under the lake's names, in the table's own order of columns."""
        names = {name: place_name(place) for place, name in enumerate(self.shape.lake_names)}
        sources = [names.get(field.name, "change") for field in fields]
        schema = arrow_schema(fields)
        batches = (
            pa.RecordBatch.from_arrays([batch.column(source) for source in sources], schema=schema)
            for some in rows
            for batch in some.to_batches()
        )
        return pa.RecordBatchReader.from_batches(schema, batches)

    def _needs_chains(self, rows: Spool) -> bool:
        """Whether a key change left columns out, or an unknown column may have an exceptional text in the lake."""
        with_text = pa.array(self.shape.toastable_exceptional_places, pa.int32())
        return any(
            pc.any(batch.column("moved")).as_py()
            or pc.any(pc.is_in(pc.list_flatten(batch.column("unknown")), with_text)).as_py()
            for batch in rows.batches()
        )

    def _schema(self, *more: pa.Field) -> pa.Schema:
        """Columns by place and our struct, in the lake's types."""
        fields = [
            LakeField(place_name(place), column.column_type.lake, {}) for place, column in enumerate(self.shape.columns)
        ]
        schema = arrow_schema([*fields, LakeField("change", STRUCT.type, {})])
        return pa.schema([*schema, *more])

    def _fold_fields(self) -> list[pa.Field]:
        own = self._schema()
        return [
            pa.field("unknown", pa.list_(pa.int32())),
            pa.field("moved", pa.bool_()),
            *[pa.field(first_key_name(place), own.field(place).type) for place in self.shape.key_places],
            pa.field("first_key_text", pa.string()),
            pa.field("is_new", pa.bool_()),
        ]

    def _unexpected(self, allowed: list[str]) -> TableError:
        table = self.shape.relation.table
        what = f"topic {self.shape.relation.topic} holds changes other than {' and '.join(allowed)} of table "
        if self.segment.is_copied:
            return TableError(f"{what}{table.qualified_name} inside the copy of it", first=FIND_THE_WRITER)
        return TableError(
            f"{what}{table.qualified_name}, whose identity tells no rows apart", first=table.identity_full
        )

    def _too_few(self, kinds: int) -> TableError:
        name = self.shape.relation.table.qualified_name
        return TableError(f"table {name} loses {kinds} different rows that the lake does not hold often enough")


def _incomplete_rows(batch: pa.RecordBatch) -> pa.Table:
    return _as_table(batch.filter(pc.greater(pc.list_value_length(batch.column("unknown")), 0)))


def _complete_rows(rows: pa.Table) -> pa.Table:
    """The rows with no unknown column. Within a copy the others come again."""
    return rows.filter(pc.equal(pc.list_value_length(rows.column("unknown")), 0))


def _not_deleted(batch: pa.RecordBatch) -> pa.Table:
    return _as_table(batch.filter(pc.not_equal(pc.struct_field(batch.column("change"), "op"), "d")))
