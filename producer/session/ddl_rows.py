"""DDL rows, which our event triggers write, taken at their position in the stream.

In: changes of our table that holds them. Out: tables that are left exactly where their rows may become others (I8), and
facts by which a look at the catalogue knows that a new file or partition changes no row.

These changes take no ordinal and are not hashed with their transaction. So positions are the same without them (I4),
and a session with DDL rows can resume a split transaction that one without them began, and the other way round.

A table that is being copied for the first time is left to the looks, which compare it with what the copy began with.
"""

from collections.abc import Iterable, Iterator

import structlog

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.errors.tables import partitions_changed, table_rewritten
from walbridge.producer.guards.doubts.columns.kept_casts import (
    NO_ENUMS,
    Enums,
    enums_cast_to_text,
    may_print_other_numbers,
)
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.pgoutput.decoder import decode_tuple
from walbridge.producer.pgoutput.messages import Insert, Relation, Truncate, sent_bytes
from walbridge.producer.relations.columns.told_columns import ToldRow
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.left_out_tables import Change, LeftOutTables
from walbridge.producer.session.table_trouble import TableTrouble
from walbridge.producer.session.transactions.session_relations import SessionRelations
from walbridge.producer.session.transactions.transaction import OpenTransaction
from walbridge.schemas.control.table_progress import CURRENT
from walbridge.schemas.ddl_row import (
    DDL_COLUMN,
    END,
    ID_COLUMN,
    PARTITIONS,
    REWRITE,
    DdlRow,
    Types,
    is_ddl_table,
    parse_ddl_row,
)
from walbridge.schemas.errors import OperatorError

log = structlog.get_logger()


class DdlRows:
    """Takes the DDL rows of one session."""

    def __init__(
        self,
        out: OpenBatch,
        tables: Tables,
        watch: SourceWatch,
        relations: SessionRelations,
        left_out: LeftOutTables,
        trouble: TableTrouble,
    ) -> None:
        self._out, self._tables, self._watch = out, tables, watch
        self._relations, self._left_out, self._trouble = relations, left_out, trouble
        self._is_ours: dict[int, bool] = {}
        self._types: dict[int, Types] = {}
        """By table: its columns' types as the last DDL row had them. The stream sends no Relation between two commands
        without a change."""

    def is_ddl_change(self, change: Change) -> bool:
        """Whether a change is one of our table of DDL rows, and of no other table."""
        if isinstance(change, Truncate):
            return not [each for each in change.relation_ids if not self._is_ddl_table(each)]  # each is asked for
        return self._is_ddl_table(change.relation_id)

    def _is_ddl_table(self, relation_id: int) -> bool:
        known = self._is_ours.get(relation_id)
        if known is None:
            relation = self._relations.of_next_change(relation_id)
            if relation is None:
                return False
            known = self._is_ours[relation_id] = is_ddl_table(relation.namespace, relation.name)
            if known:
                self._left_out.add(relation_id)
        return known

    def receive(self, change: Change, transaction: OpenTransaction) -> None:
        """Take a change of our table, in a transaction of which every further change is published.

        Raises:
            OperatorError: settings say that a table in doubt stops all.
        """
        relation = self._relations.of_next_change(change.relation_id) if isinstance(change, Insert) else None
        if not isinstance(change, Insert) or relation is None or (row := _parsed(relation, change)) is None:
            return  # deleting DDL rows says nothing of tables
        if row.told is not None:
            self._relations.note_altered(row.relation_id)
            row_id = _text(relation, change, ID_COLUMN)
            if row_id is not None:
                self._watch.told_places.take(row.relation_id, ToldRow(int(row_id), row.told))
            return
        for relation_id, reason in self._tables_to_leave(row):
            for record in self._tables.versions.newest([relation_id]):
                self._out.open()
                self._trouble.leave(record, transaction.position, reason)

    def _tables_to_leave(self, row: DdlRow) -> Iterator[tuple[int, OperatorError]]:
        facts, known = self._watch.stream_facts, self._out.tracker.progress.tables
        current = {
            each
            for each, table in known.items()
            if table.state == CURRENT and each not in self._out.batch.dropped and not self._left_out.has(each)
        }
        if row.event == REWRITE:
            enums = NO_ENUMS if row.keeps_values else self._enums_cast(row)
            if enums is not None:
                facts.note_rewrite(row.relation_id, row.file, enums)
                return
            yield from self._rewritten(current & row.tables)
        elif row.event == PARTITIONS:
            with_rows = any(facts.partitions.may_bring_rows(each) for each in row.attached)
            for each in current & row.tables:
                if with_rows or facts.has_used_partition(each, row.gone):
                    yield each, partitions_changed(self._name(each))
        elif row.event == END:
            facts.note_file_after_command(row.relation_id, row.file)
            if may_print_other_numbers(self._types_of(row.relation_id), row.types):
                yield from self._rewritten(current & {row.relation_id})
            self._types[row.relation_id] = row.types
        else:
            for each in current - row.gone:
                if facts.has_used_partition(each, row.gone):
                    yield each, partitions_changed(self._name(each))

    def _rewritten(self, relation_ids: Iterable[int]) -> Iterator[tuple[int, OperatorError]]:
        return ((each, table_rewritten(self._name(each))) for each in relation_ids)

    def _enums_cast(self, row: DdlRow) -> Enums | None:
        """The enums whose labels a rewrite turned into text, if it only casts columns outside the key so that every
        value stays, and the table is no partition; else None. A key column of another type has other bytes in Kafka."""
        of, known = row.relation_id, self._tables.writers.current_version(row.relation_id)
        if known is None or not row.is_plain or row.tables != {of}:
            return None
        keys = {each.attnum for each in known.table.key_columns}
        found = NO_ENUMS
        for before in (self._types_of(of), self._types.get(of) or self._types_of(of)):
            enums = enums_cast_to_text(before, row, self._tables.versions.type_facts)
            if enums is None or not {each for each in before if each[0] in keys} <= row.types:
                return None
            found |= enums
        return found

    def _types_of(self, relation_id: int) -> Types:
        """The columns' types as they were announced last; empty where the number of a column is not known."""
        known = self._tables.writers.current_version(relation_id)
        numbered = [(each.attnum, each.type_oid, each.typmod) for each in (known.table.columns if known else ())]
        types = frozenset((number, of, typmod) for number, of, typmod in numbered if number is not None)
        return types if len(types) == len(numbered) else frozenset()

    def _name(self, relation_id: int) -> str:
        return self._tables.versions.name(relation_id)


def _parsed(relation: Relation, change: Insert) -> DdlRow | None:
    text = _text(relation, change, DDL_COLUMN)
    row = None if text is None else parse_ddl_row(text)
    if row is None:
        log.debug("a row about DDL that this version does not read")
    return row


def _text(relation: Relation, change: Insert, name: str) -> str | None:
    """What stands in this column of the row; None where nothing does."""
    places = [place for place, column in enumerate(relation.columns) if column.name == name]
    fields = decode_tuple(change.new)
    sent = sent_bytes(fields[places[0]]) if places and places[0] < len(fields) else None
    return None if sent is None else sent.decode(errors="replace")
