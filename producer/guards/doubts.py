"""Tables that are followed and may not equal the source any more: which, and why.

In: the publication and the tables' files as they are, compared with what progress remembers. Out: what the next cut
has to say (``session/table_trouble.py``). Nothing is remembered of a table in doubt before its next copy begins, so
that a doubt which no cut told is found again after a restart (I7, I8).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from walbridge.producer import errors
from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.guards.baseline import GENERATED_OPTION, Baseline
from walbridge.producer.guards.rewrites import added_columns, as_text, from_text, is_rewritten
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublicationState, TableFile
from walbridge.producer.postgres.publication import with_generated_columns
from walbridge.producer.postgres.table_files import table_files, with_added_values
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings


class Doubts:
    """Those of one session."""

    def __init__(self, settings: Settings, connection: SqlConnection, tables: Tables, tracker: ProgressTracker) -> None:
        self._connection, self._tables, self._tracker = connection, tables, tracker
        self._stops = settings.producer.on_table_error == "stop"
        self._doubted: dict[int, OperatorError] = {}
        self._generated: str | None = None
        """What the publication says of generated columns, to be remembered with what is doubted for it."""
        self._truncated: set[int] = set()
        """Tables of which the stream brought a TRUNCATE since their files were compared."""

    def __len__(self) -> int:
        return len(self._doubted)

    def truncate(self, relation_ids: Iterable[int]) -> None:
        """The stream brings a TRUNCATE of these."""
        self._truncated.update(relation_ids)

    def add(self, reasons: Mapping[int, OperatorError]) -> None:
        """These tables are not current.

        Raises:
            OperatorError: settings say that this stops all.
        """
        if reasons and self._stops:
            raise next(iter(reasons.values()))
        self._doubted = {**reasons, **self._doubted}

    def take(self) -> dict[int, OperatorError]:
        """All of them, each told once, to be said in the cut that is made next."""
        doubted, self._doubted = self._doubted, {}
        if self._generated is not None:
            self._tracker.remember_options({GENERATED_OPTION: self._generated})
            self._generated = None
        return doubted

    def take_of(self, relation_id: int) -> OperatorError | None:
        """Why this table is not current, told once."""
        return self._doubted.pop(relation_id, None)

    def compare_publication(self, name: str, baseline: Baseline, now: PublicationState) -> None:
        """Whether tables are members for another reason, or with other columns."""
        changed = {each: errors.membership_changed(name, self._name(each)) for each in baseline.changed(now)}
        self.add(changed)
        if baseline.has_other_generated_columns(now):
            concerned = with_generated_columns(self._connection, self._tracker.progress.relation_ids)
            self.add({each: errors.generated_columns_changed(name, self._name(each)) for each in concerned})
            self._generated = now.generated_columns

    def compare_files(self, relation_ids: Iterable[int]) -> None:
        """Whether tables were rewritten; what is no doubt is remembered for the next comparison."""
        tables = self._tracker.progress.tables
        found = table_files(self._connection, relation_ids)
        known = {each: from_text(tables[each].storage or "") for each in found}
        counts = {
            file.relation_id: known[each][file.relation_id].column_count
            for each, files in found.items()
            for file in files
            if file.relation_id in known[each] and added_columns(known[each][file.relation_id], file)
        }
        filled = with_added_values(self._connection, counts) if counts else set()
        reasons: dict[int, OperatorError] = {}
        others = {}
        for relation_id, files in found.items():
            if self._is_rewritten(relation_id, known[relation_id], files):
                reasons[relation_id] = errors.table_rewritten(self._name(relation_id))
            elif any(file.relation_id in filled for file in files):
                reasons[relation_id] = errors.column_added_with_values(self._name(relation_id))
            elif relation_id not in self._doubted and tables[relation_id].storage != as_text(files):
                others[relation_id] = replace(tables[relation_id], storage=as_text(files))
        self.add(reasons)
        self._truncated -= found.keys()
        if others:
            self._tracker.remember_tables(others)

    def _is_rewritten(self, relation_id: int, known: Mapping[int, TableFile], files: Iterable[TableFile]) -> bool:
        return any(
            is_rewritten(
                known[file.relation_id],
                file,
                is_partition=file.relation_id != relation_id,
                is_truncated=relation_id in self._truncated,
            )
            for file in files
            if file.relation_id in known
        )

    def _name(self, relation_id: int) -> str:
        return self._tables.names([relation_id]).get(relation_id, f"relation {relation_id}")
