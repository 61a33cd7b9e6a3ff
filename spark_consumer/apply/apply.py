"""One plan to one table: from the plan's records to Delta commits, exactly once.

In: the plan's records of the table, the relation versions, the table's part of the plan. Out: the
table's head. Called from several threads, one a table; nothing here changes a session.

    1. the head is the base, or this plan's own work so far; else the base is restored   (I5)
    2. per segment: the table gets the segment's shape, then one commit with its rows
    3. a segment that empties the table overwrites it (so does the first segment of a copy that ends); copied rows are
       appended; new rows are appended if it is certain that the table holds none of them; other rows are merged

A crash leaves the table between two commits, and the next call goes on from there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from walbridge.runtime.kill_points import kill_point
from walbridge.schemas.avro.framing import TOMBSTONE
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import TableError, WalbridgeError
from walbridge.spark_consumer.apply.changes import write_changes
from walbridge.spark_consumer.apply.existence import Existence, refuse_other_matches
from walbridge.spark_consumer.apply.head import is_untouched, segments_done
from walbridge.spark_consumer.apply.job_lake import JobLake
from walbridge.spark_consumer.apply.reshape import reshape
from walbridge.spark_consumer.apply.table_folder import ATTEMPTS_MAX, TableFolder
from walbridge.spark_consumer.delta.commit import CREATE, RESTORE, SHAPE, Commit
from walbridge.spark_consumer.delta.shared_files import with_lost_files_marked
from walbridge.spark_consumer.delta.table import LakeTable
from walbridge.spark_consumer.delta.table_faults import ConcurrentCommit, NotShared, VersionGone, is_lost_file
from walbridge.spark_consumer.errors import FIND_THE_WRITER, classified_error
from walbridge.spark_consumer.fold.shape import TableShape
from walbridge.spark_consumer.kafka.change_reader import TableRecords
from walbridge.spark_consumer.plan.plan import Plan, TableHead, TablePlan

log = structlog.get_logger()

HISTORY_PER_SEGMENT = 8
"""How many commits to look back on a new table. A shape that describes many columns makes more; the newest decide."""


def apply_table(
    lake: JobLake,
    records: TableRecords,
    relations: Mapping[str, RelationRecord],
    table_plan: TablePlan,
    plan: Plan,
) -> TableHead:
    """Apply a plan to one table; again after a crash, with the same result.

    Args:
        records: the plan's records of the table's topic.
        relations: by schema id.

    Raises:
        TableError: an unknown schema id, undecodable records, values that cannot be known, a
            table that was removed, damaged or rolled back, a type change that needs a copy.
        OperatorError: executors that are to write do not share the lake's folder.
    """
    application = Application(lake, table_plan, plan, records, relations)
    for _ in range(ATTEMPTS_MAX):
        try:
            return application.apply()
        # Begin again: the other program's commit is then found, and the table is put back to its base.
        except ConcurrentCommit:
            continue
        except NotShared as error:
            application.put_back()
            lake.appliers.stop_using_executors(error)
        except Exception as error:
            application.refuse_lost(error)
            raise
    raise application.written_by_others()


@dataclass(frozen=True)
class Application(TableFolder):
    """One plan on one table."""

    records: TableRecords
    relations: Mapping[str, RelationRecord]

    def apply(self) -> TableHead:
        """Apply the segments that are not done yet."""
        self._refuse_unknown_schemas()
        path, table = self.opened()
        done, existence = 0, Existence.UNKNOWN
        if table is not None:
            done, existence = self._settle(table)
        elif self.needed_base is not None:
            raise self.lost("is gone")
        for segment in self.table_plan.segments[done:]:
            shape = TableShape(self._relation(segment.schema_id))
            commit = replace(self.commit, segment=segment.index, txn_version=self.plan.txn_version(segment.index))
            if table is None:
                kill_point("apply:before-create")
                created = replace(self.commit, step=CREATE)
                table = LakeTable.create(self.lake.uri(path), shape.fields, created, self.lake.storage_options)
                kill_point("apply:table-created")
            # One that empties the table overwrites its columns with its rows.
            if not segment.empties:
                before = self._shape_before(segment.index)
                reshape(table, shape, before, replace(commit, step=SHAPE), self.lake.appliers)
                kill_point("apply:table-reshaped")
            write_changes(table, self.records, shape, segment, commit, existence, self.lake.appliers)
            kill_point("apply:segment-applied")
        assert table is not None
        return self.head(path, table)

    def refuse_lost(self, error: Exception) -> None:
        """Raise the error of a table of which something was lost, if that is what an error tells."""
        if is_lost_file(error):
            raise TableError(f"the lake's table {self.path} has lost files, or they are damaged") from error
        if isinstance(error, WalbridgeError) or classified_error(error) is not error:
            return
        # A folder that goes while it is written shows in as many errors as there are steps.
        if self.needed_base is not None and self.opened()[1] is None:
            raise self.lost("is gone") from error

    def put_back(self) -> None:
        """Put the table back to its base, if a commit of this plan names files that are missing."""
        _, table = self.opened()
        if table is not None:
            self._settle(table)

    def _settle(self, table: LakeTable) -> tuple[int, Existence]:
        """Put the table back to its base if another program changed it. Returns how many segments are done, and how far
        operations are relied on."""
        base = self.needed_base
        if base is not None and table.version < base.version:
            raise self.lost(f"is at version {table.version}, before version {base.version} that was published")
        segments = self.table_plan.segments
        # Without a base every commit of the table may be this plan's own.
        newest = HISTORY_PER_SEGMENT * (len(segments) + 1) if base is None else table.version - base.version
        empties = segments[0].empties
        commits = with_lost_files_marked(table.uri, table.commits(newest))
        done = segments_done(commits, self.commit.plan or "", first_empties=empties)
        # An overwrite cannot bring a row twice, and a plan that is done adds none.
        # Of what is written beside the plans, this job has just made the base; plans up to the same cut may have been
        # there before, in a table that was fed.
        if base is not None and not empties and not self.table_plan.beside and (done or 0) < len(segments):
            self._refuse_newer_base(table, base.version)
        if done is None and base is not None:
            self._tell_others(commits)
            try:
                table.restore(base.version, replace(self.commit, step=RESTORE))
            except VersionGone:
                raise self.lost(f"cannot go back to version {base.version}: its files are gone") from None
        return done or 0, self._existence(commits)

    def _tell_others(self, commits: Sequence[Commit]) -> None:
        """Log which commits of other programs are about to be undone."""
        if others := [commit.version for commit in commits if commit.plan is None and commit.changes_data]:
            name = self._relation(self.table_plan.segments[-1].schema_id).table.qualified_name
            remedy = "find who it is by these versions in the table's log: nobody but this job may write there"
            log.warning("another program wrote to a table, which is undone", table=name, versions=others, remedy=remedy)

    def _existence(self, commits: Sequence[Commit]) -> Existence:
        """How far operations are relied on to tell which rows the table holds, after these commits since the base.

        Raises:
            TableError: a merge of this plan had other counts than expected, and the job was killed before it said so.
        """
        table = self._relation(self.table_plan.segments[-1].schema_id).table
        if table.is_root or table.is_archive or not (self.lake.source_sends_all and self.table_plan.follows_source):
            return Existence.UNKNOWN
        for commit in commits:
            if commit.plan == self.commit.plan and commit.expected is not None:
                refuse_other_matches(commit.expected, commit.found, table.qualified_name)
        return Existence.TRUSTED if is_untouched(commits) else Existence.VERIFIED

    def _refuse_newer_base(self, table: LakeTable, base: int) -> None:
        """Refuse a base version that already holds this plan's rows, whatever ``_cuts`` says: it would get them twice
        (I5).

        Transactions outlive a restore, so only those at the base version itself count. They are read only if the newest
        transaction is as new as this plan.
        """
        first, app_id = self.plan.txn_version(self.table_plan.segments[0].index), self.commit.app_id
        newest = table.transaction_version(app_id)
        if newest is None or newest < first:
            return
        try:
            at_base = table.transaction_version_at(base, app_id)
        except VersionGone:
            raise self.lost(f"has lost its version {base}, which the lake's newest row names") from None
        if at_base is not None and at_base >= first:
            raise self.lost(
                f"at version {base} holds transaction {at_base} already, and cut {self.plan.to_cut} would be "
                "applied twice: newer code or another program wrote to this lake"
            )

    def _shape_before(self, segment: int) -> TableShape | None:
        """The relation version of the table before the segment; None where it is not known."""
        if segment:
            schema_id = self.table_plan.segments[segment - 1].schema_id
        else:
            schema_id = self.table_plan.base.schema_id if self.table_plan.base else ""
        relation = self.relations.get(schema_id)
        return None if relation is None else TableShape(relation)

    def _refuse_unknown_schemas(self) -> None:
        """Refuse records of a schema that is not known, or that no segment has (I7)."""
        used = {self._relation(segment.schema_id).frame_id for segment in self.table_plan.segments}
        topic = self.table_plan.topic
        for frame_id, volume in self.records.volumes.items():
            if frame_id == TOMBSTONE:
                continue
            if frame_id is None:
                raise TableError(
                    f"topic {topic} holds {volume.rows} records that walbridge did not write", first=FIND_THE_WRITER
                )
            if frame_id not in used and all(each.frame_id != frame_id for each in self.relations.values()):
                raise self._unknown(frame_id)
            # Records before a barrier that empties the table are void, whatever schema they have; those behind the
            # last segment belong to a pending copy.
            segments = self.table_plan.segments
            if frame_id not in used and not segments[0].empties and segments[-1].end is None:
                raise TableError(f"topic {topic} holds records of schema {frame_id} that no cut announces")

    def _relation(self, schema_id: str) -> RelationRecord:
        relation = self.relations.get(schema_id)
        if relation is None:
            raise self._unknown(schema_id)
        return relation

    def _unknown(self, an_id: str) -> TableError:
        return TableError(
            f"topic {self.table_plan.topic} needs schema {an_id}, which the metadata topic does not hold",
            first="compare the pipeline's name and brokers of both programs; newer code may have written it",
        )
