"""Whether a table still equals its source, by its files and partitions: new files are rows that nobody sent, unless
something explains them.

In: files, partitions and types of a table as progress remembers them and as they are; what the stream said of it. Out:
no doubt, a doubt, or a doubt that the stream may still end.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.errors.tables import (
    DatedByDdlRow,
    labels_changed,
    partition_not_sent,
    partitions_changed,
    table_rewritten,
)
from walbridge.producer.guards.doubts import rewrites
from walbridge.producer.guards.doubts.columns import altered_types
from walbridge.producer.guards.doubts.rewrites import by_relation
from walbridge.producer.guards.doubts.stream_facts import StreamFacts
from walbridge.producer.guards.doubts.truncations import Truncations
from walbridge.producer.postgres.facts import TableFile, TableStorage
from walbridge.producer.postgres.publications.combined_publications import operations_in
from walbridge.schemas.errors import OperatorError


@dataclass(frozen=True, slots=True)
class Judgement:
    """``doubt``: why the table may not equal its source any more; None where it does.

    ``awaited``: the new files that the stream may still explain, which ends the doubt; None where nothing ends it.
    """

    doubt: OperatorError | None = None
    awaited: list[TableFile] | None = None


class FileJudge:
    """Judges the tables of one session.

    Args:
        name: returns the name of a table.
    """

    def __init__(
        self, facts: StreamFacts, truncations: Truncations, tracker: ProgressTracker, name: Callable[[int], str]
    ) -> None:
        self._facts, self._truncations, self._tracker, self._name = facts, truncations, tracker, name

    def judge(
        self, relation_id: int, known: TableStorage, now: TableStorage, columns: OperatorError | None
    ) -> Judgement:
        """Compare a table with what progress remembers of it; ``columns``: what speaks against its columns alone."""
        reason = self._reason(relation_id, known, now, columns)
        if reason is not None:
            # A DDL row that is still to come gives the position. When the file was made is not known
            # (``truncations.py``).
            undated = [replace(each, written_by_xid=0) for each in now.files]
            is_dated_later = self._facts.has_ddl_rows and isinstance(reason, DatedByDdlRow)
            return Judgement(reason, undated if is_dated_later else None)
        new = self._rewritten(relation_id, known, now, may_be_truncated=self._leaves_truncates_out(relation_id))
        return Judgement(table_rewritten(self._name(relation_id)), new) if new else Judgement()

    def _reason(
        self, relation_id: int, known: TableStorage, now: TableStorage, columns: OperatorError | None
    ) -> OperatorError | None:
        """Why the table may not equal its source any more; ``columns``: what speaks against its columns alone."""
        before, files = by_relation(known), by_relation(now)
        if not all(file.is_logged for file in now.files if file.relation_id != relation_id):
            return partition_not_sent(self._name(relation_id))
        if before and self._facts.partitions.came_or_went_with_rows(relation_id, before, files):
            return partitions_changed(self._name(relation_id))
        if self._rewritten(relation_id, known, now, may_be_truncated=True):
            return table_rewritten(self._name(relation_id))
        if columns is None and altered_types.prints_differently(known, now):
            return labels_changed(self._name(relation_id))
        return columns

    def _rewritten(
        self, relation_id: int, known: TableStorage, now: TableStorage, *, may_be_truncated: bool
    ) -> list[TableFile]:
        """The table's new files that no TRUNCATE explains.

        Args:
            may_be_truncated: assume that a TRUNCATE made each file, though the stream has not brought it yet.
        """
        before = by_relation(known)
        return [
            file
            for file in now.files
            if file.relation_id in before
            and not self._facts.partitions.is_unused(before[file.relation_id])
            and not self._facts.rewrites.explains(before[file.relation_id], file)
            and rewrites.is_rewritten(
                before[file.relation_id],
                file,
                is_partition=file.relation_id != relation_id,
                is_truncated=may_be_truncated or self._truncations.is_truncated(relation_id),
                truncated_by=file.written_by_xid
                if may_be_truncated
                else self._truncations.xid_of_last_truncate(relation_id),
            )
        ]

    def _leaves_truncates_out(self, relation_id: int) -> bool:
        """Whether the publications leave TRUNCATE out: then an emptied table is no doubt about its archive."""
        table = self._tracker.progress.tables.get(relation_id)
        operations = operations_in(table.membership) if table is not None else None
        return operations is not None and "truncate" not in operations
