"""One Delta table, written with delta-rs.

In: a URI, Arrow batches, SQL conditions. Out: commits, each at exactly the version after the one
its handle was loaded at: ``max_commit_retries=0`` makes a commit put-if-absent, so another writer
is noticed and nothing is merged over what was not seen (I5).

Every commit says what made it (``Commit``), by which a restarted job tells its own commits from
others. The last commit of a segment also carries the Delta transaction of the plan.
Delta-rs does not skip a transaction that a table already has; ``head.py`` does.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, Schema, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.schema import Field

from walbridge.spark_consumer.delta.columns import LakeField, delta_schema, lake_fields
from walbridge.spark_consumer.delta.commit import SHAPE, Commit, Matches, newest_commits
from walbridge.spark_consumer.delta.empty_commits import refuse_empty_commits
from walbridge.spark_consumer.delta.opening import table_if_any
from walbridge.spark_consumer.delta.shared_files import delete_dangling_checkpoint_hint
from walbridge.spark_consumer.delta.statistics import exact_bounds, kept_bounds, without_bounds
from walbridge.spark_consumer.delta.table_faults import ConcurrentCommit, DamagedTable, VersionGone
from walbridge.spark_consumer.delta.table_features import commit_errors, constraints, has_vectors, refuse_unwritable
from walbridge.spark_consumer.errors import classified_error

RETENTION_DAYS = 9
"""How long log entries and removed files stay: longer than the 8 days that ``cut_retention_hours`` allows."""
PROPERTIES: Mapping[str, str] = {
    "delta.logRetentionDuration": f"interval {RETENTION_DAYS} days",
    "delta.deletedFileRetentionDuration": f"interval {RETENTION_DAYS} days",
    "delta.checkpointInterval": "20",
    # A commit would delete old log entries by their age, also those that a published row needs (I8). Maintenance
    # deletes them once no kept row does.
    "delta.enableExpiredLogCleanup": "false",
}
VECTORS = "delta.enableDeletionVectors"
"""Set on a table that Spark has written to."""
BY_SPARK = "walbridge.spark"
"""Set on a table before Spark appends to it: only the history of such tables is searched for Spark's commits."""
SPARK_COMMITS = 8
"""How many of the newest commits are searched for a transaction, on a table that Spark writes to."""

_SESSION = {"datafusion.execution.parquet.schema_force_view_types": "false"}
"""View types do not cast to their plain ones everywhere in Arrow."""
_WITHOUT_BOUNDS = {"datafusion.optimizer.enable_dynamic_filter_pushdown": "false"}
"""With this filter a join skips files outside the bounds of its keys, and a file's bounds leave NaN out."""


def _newest_transaction(*found: int | None) -> int | None:
    return max((version for version in found if version is not None), default=None)


@dataclass(frozen=True, slots=True)
class Merge:
    """A MERGE of ``source`` into ``target``. Conditions are SQL; None leaves the clause out."""

    condition: str
    delete_when: str | None = None
    update_when: str | None = None
    updates: Mapping[str, str] = field(default_factory=dict)
    insert_when: str | None = None
    inserts: Mapping[str, str] = field(default_factory=dict)


class LakeTable:
    """A table at one version. Writing moves the handle to the version written."""

    def __init__(self, uri: str, delta: DeltaTable, storage_options: dict[str, str]) -> None:
        self.uri = uri
        self._delta = delta
        self._storage_options = storage_options

    @classmethod
    def open(cls, uri: str, storage_options: dict[str, str]) -> "LakeTable | None":
        """The table at its newest version; None if there is certainly none.

        Raises:
            DamagedTable: the table's log cannot be followed.
            TableError: another program set a feature on the table that delta-rs cannot write.
        """
        try:
            delta = table_if_any(uri, storage_options)
        except (DeltaError, DamagedTable) as error:
            if delete_dangling_checkpoint_hint(uri):
                return cls.open(uri, storage_options)
            found = classified_error(error)
            if found is error:
                raise
            raise found from error
        if delta is None:
            return None
        refuse_unwritable(uri, delta)
        return cls(uri, delta, storage_options)

    @classmethod
    def create(
        cls, uri: str, fields: Sequence[LakeField], commit: Commit, storage_options: dict[str, str]
    ) -> "LakeTable":
        """A new table without rows."""
        with commit_errors(uri):
            delta = DeltaTable.create(
                uri,
                delta_schema(fields),
                configuration={**PROPERTIES, **exact_bounds(fields)},
                storage_options=storage_options or None,
                commit_properties=commit.properties(),
            )
        return cls(uri, delta, storage_options)

    @property
    def version(self) -> int:
        return self._delta.version()

    @property
    def constraints(self) -> list[str]:
        """Names of conditions that another program set: rows that do not meet them cannot be written."""
        return constraints(self._delta)

    @property
    def fields(self) -> list[LakeField]:
        """The columns, in the table's own order."""
        return lake_fields(self._delta.schema())

    def transaction_version(self, app_id: str) -> int | None:
        """The newest Delta transaction of an application; None without one."""
        return _newest_transaction(
            self._delta.transaction_version(app_id), self._spark_transaction(app_id, self.version)
        )

    def transaction_version_at(self, version: int, app_id: str) -> int | None:
        """The newest transaction of an application at an older version: a restore leaves later ones in the log.

        Raises:
            VersionGone: its log entries are not there any more.
        """
        try:
            old = DeltaTable(self.uri, version=version, storage_options=self._storage_options or None)
            refuse_empty_commits(self.uri, version)
        except (DeltaError, OSError, DamagedTable) as error:
            raise self._gone(version, error) from error
        return _newest_transaction(old.transaction_version(app_id), self._spark_transaction(app_id, version))

    def _spark_transaction(self, app_id: str, version: int) -> int | None:
        """The newest transaction in Spark's commits up to a version. Only a handle at the newest version numbers them
        right."""
        if not (has_vectors(self._delta) or self._is_written_by_spark):
            return None
        commits = self.commits(SPARK_COMMITS + self.version - version)
        found = (each.txn_version for each in commits if each.app_id == app_id and each.version <= version)
        return max(found, default=None)

    def commits(self, newest: int) -> list[Commit]:
        """What the newest commits say of themselves, oldest first."""
        return newest_commits(self._delta, newest)

    def append(self, rows: pa.RecordBatchReader, commit: Commit) -> None:
        """Add rows; their schema is the table's."""
        with commit_errors(self.uri, self._delta):
            write_deltalake(
                self._delta,
                rows,
                mode="append",
                writer_properties=without_bounds(self.fields),
                commit_properties=commit.properties(),
            )

    def overwrite(self, rows: pa.RecordBatchReader, commit: Commit) -> None:
        """Replace all rows by these, and the schema by theirs."""
        fields = lake_fields(Schema.from_arrow(rows.schema))
        self.keep_bounds(fields, commit)
        with commit_errors(self.uri, self._delta):
            write_deltalake(
                self._delta,
                rows,
                mode="overwrite",
                schema_mode="overwrite",
                writer_properties=without_bounds(fields),
                commit_properties=commit.properties(),
            )

    def merge(self, merge: Merge, source: pa.RecordBatchReader, commit: Commit) -> Matches:
        """One MERGE; returns its counts."""
        with commit_errors(self.uri, self._delta):
            builder = self._delta.merge(
                source,
                merge.condition,
                source_alias="source",
                target_alias="target",
                writer_properties=without_bounds(self.fields),
                commit_properties=commit.properties(),
            )
            if merge.delete_when is not None:
                builder = builder.when_matched_delete(merge.delete_when)
            if merge.update_when is not None:
                builder = builder.when_matched_update(dict(merge.updates), merge.update_when)
            if merge.insert_when is not None:
                builder = builder.when_not_matched_insert(dict(merge.inserts), merge.insert_when)
            return Matches.of(builder.execute())

    def query(self, sql: str, source: "LakeTable | None" = None) -> pa.RecordBatchReader:
        """Rows of a SELECT over ``target`` (this table at its version) and ``source``, streamed."""
        has_floats = any(field.type in ("float", "double") for field in self.fields)
        session = _SESSION | _WITHOUT_BOUNDS if has_floats else _SESSION
        builder = QueryBuilder(session).register("target", self._delta)
        if source is not None:
            builder = builder.register("source", source._delta)
        return pa.RecordBatchReader.from_stream(builder.execute(sql))

    def add_columns(self, fields: Sequence[LakeField], commit: Commit) -> None:
        """New columns, null in every row."""
        self.keep_bounds([*self.fields, *fields], commit)
        with commit_errors(self.uri, self._delta):
            new = [Field.from_json(json.dumps(field.json())) for field in fields]
            self._delta.alter.add_columns(new, commit_properties=commit.properties())

    def describe_column(self, field: LakeField, commit: Commit) -> None:
        """Set a column's metadata."""
        metadata = {name: str(value) for name, value in field.metadata.items()}
        with commit_errors(self.uri, self._delta):
            self._delta.alter.set_column_metadata(field.name, metadata, commit_properties=commit.properties())

    def _gone(self, version: int, error: Exception) -> BaseException:
        """The error for a version that cannot be read: ``VersionGone``, unless a full disk or a store that does not
        answer is the cause."""
        known = classified_error(error)
        return VersionGone(f"version {version} of {self.uri}") if known is error else known

    def restore(self, version: int, commit: Commit) -> None:
        """Make the table what it was at ``version``, as a new commit.

        Raises:
            VersionGone: its files or log entries are not there any more.
        """
        try:
            refuse_empty_commits(self.uri, version)
            with commit_errors(self.uri, self._delta):
                self._delta.restore(version, commit_properties=commit.properties())
        except (DeltaError, OSError, DamagedTable) as error:
            raise self._gone(version, error) from error
        # The handle keeps the schema it was loaded with: load again.
        self.reload()

    @property
    def writes_vectors(self) -> bool:
        """Whether Spark writes deletion vectors to the table, which some readers cannot read."""
        return self._delta.metadata().configuration.get(VECTORS) == "true"

    @property
    def _is_written_by_spark(self) -> bool:
        return self._delta.metadata().configuration.get(BY_SPARK) == "true"

    def keep_bounds(self, fields: Sequence[LakeField], commit: Commit) -> None:
        """Before the table gets these columns: have no writer tell bounds of one that are not exact."""
        if found := kept_bounds(self.fields, fields, self._delta.metadata().configuration):
            self._set(found, replace(commit, step=SHAPE))

    def _set(self, properties: dict[str, str], commit: Commit) -> None:
        said = commit.properties()
        with commit_errors(self.uri, self._delta):
            self._delta.alter.set_table_properties(properties, raise_if_not_exists=False, commit_properties=said)

    def mark_spark_writes(self, commit: Commit) -> None:
        """Set the property that Spark writes to the table, unless it is set."""
        if not self._is_written_by_spark:
            self._set({BY_SPARK: "true"}, commit)

    def advance_over(self, commit: Commit) -> None:
        """Move the handle to the version after this commit, which Spark has made; stay if it had nothing to commit.

        Raises:
            ConcurrentCommit: somebody else committed meanwhile.
        """
        before = self.version
        self.reload()
        if self.version == before:
            return
        newest = self.commits(1)[-1]
        is_ours = (newest.plan, newest.segment, newest.step) == (commit.plan, commit.segment, commit.step)
        # Spark commits after whatever version it finds, and does not tell if that was not our head.
        if self.version != before + 1 or not is_ours:
            raise ConcurrentCommit(f"another program committed to {self.uri} at the same time")

    @property
    def files(self) -> list[str]:
        """The URIs of the data files."""
        return self._delta.file_uris()

    def file_statistics(self) -> pa.Table:
        """One row a file: ``size_bytes``, ``num_records``, and ``min.<column>``, ``max.<column>`` where they exist."""
        return pa.table(self._delta.get_add_actions(flatten=True))

    def reload(self) -> None:
        """Move the handle to the newest version."""
        self._delta = DeltaTable(self.uri, storage_options=self._storage_options or None)
