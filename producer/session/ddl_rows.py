"""DDL that the source tells as rows, at their place in the stream.

In: changes of the table of ours that holds them. Out: tables that are left at the very position from which on their
rows may be others (I8); what a look at the catalogue would find later, or earlier, and what it need not doubt.

These changes take no ordinal and are not counted among those of their transaction: positions are as without them (I4),
and a transaction that was split is resumed by a session that is told DDL as by one that is not.

A table that is being copied for the first time is left to the looks, which compare what the copy began with.
"""

from collections.abc import Iterable, Iterator

import structlog

from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.errors.tables import partitions_changed, table_rewritten
from walbridge.producer.guards.doubts.kept_casts import NO_ENUMS, Enums, labels_cast, reads_otherwise
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.pgoutput.decoder import decode_tuple
from walbridge.producer.pgoutput.messages import Insert, Relation, Truncate, sent_bytes
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.left_out_tables import Change, LeftOutTables
from walbridge.producer.session.table_trouble import TableTrouble
from walbridge.producer.session.transactions.session_relations import SessionRelations
from walbridge.producer.session.transactions.transaction import OpenTransaction
from walbridge.schemas.control.table_progress import CURRENT
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.told_ddl import DDL_COLUMN, END, PARTITIONS, REWRITE, ToldDdl, Types, is_ddl_table, parse_told

log = structlog.get_logger()


class DdlRows:
    """One for each session."""

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
        """Of columns, as a row told last: the stream tells none where nothing is written between two commands."""

    def is_one(self, change: Change) -> bool:
        """Whether a change is of our table, and of no other."""
        if isinstance(change, Truncate):
            return not [each for each in change.relation_ids if not self._has(each)]  # each is asked for
        return self._has(change.relation_id)

    def _has(self, relation_id: int) -> bool:
        known = self._is_ours.get(relation_id)
        if known is None:
            relation = self._relations.wanted(relation_id)
            if relation is None:
                return False
            known = self._is_ours[relation_id] = is_ddl_table(relation.namespace, relation.name)
            if known:
                self._left_out.add(relation_id)
        return known

    def receive(self, change: Change, transaction: OpenTransaction) -> None:
        """A change of our table, in a transaction of which every further change is published.

        Raises:
            OperatorError: settings say that a table in doubt stops all.
        """
        relation = self._relations.wanted(change.relation_id) if isinstance(change, Insert) else None
        if not isinstance(change, Insert) or relation is None or (told := _told(relation, change)) is None:
            return  # who deletes rows tells nothing
        for relation_id, reason in self._left_by(told):
            for record in self._tables.versions.newest([relation_id]):
                self._out.open()
                self._trouble.leave(record, transaction.position, reason)

    def _left_by(self, told: ToldDdl) -> Iterator[tuple[int, OperatorError]]:
        facts, known = self._watch.stream_facts, self._out.tracker.progress.tables
        current = {
            each
            for each, table in known.items()
            if table.state == CURRENT and each not in self._out.batch.dropped and not self._left_out.has(each)
        }
        if told.event == REWRITE:
            enums = NO_ENUMS if told.keeps_values else self._labels_cast(told)
            if enums is not None:
                facts.tell_rewrite(told.relation_id, told.file, enums)
                return
            yield from self._rewritten(current & told.tables)
        elif told.event == PARTITIONS:
            with_rows = any(facts.partitions.may_bring_rows(each) for each in told.attached)
            for each in current & told.tables:
                if with_rows or facts.has_partition(each, told.gone):
                    yield each, partitions_changed(self._name(each))
        elif told.event == END:
            facts.tell_file(told.relation_id, told.file)
            if reads_otherwise(self._types_of(told.relation_id), told.types):
                yield from self._rewritten(current & {told.relation_id})
            self._types[told.relation_id] = told.types
        else:
            for each in current - told.gone:
                if facts.has_partition(each, told.gone):
                    yield each, partitions_changed(self._name(each))

    def _rewritten(self, relation_ids: Iterable[int]) -> Iterator[tuple[int, OperatorError]]:
        return ((each, table_rewritten(self._name(each))) for each in relation_ids)

    def _labels_cast(self, told: ToldDdl) -> Enums | None:
        """The enums whose labels became texts by a rewrite of a table that is no partition, which casts columns beside
        its key so that every value stays; None where it may do more. A key of another type has other bytes."""
        of, known = told.relation_id, self._tables.writers.announced_last(told.relation_id)
        if known is None or not told.is_plain or told.tables != {of}:
            return None
        keys = {each.attnum for each in known.table.key_columns}
        found = NO_ENUMS
        for before in (self._types_of(of), self._types.get(of) or self._types_of(of)):
            enums = labels_cast(before, told, self._tables.versions.type_facts)
            if enums is None or not {each for each in before if each[0] in keys} <= told.types:
                return None
            found |= enums
        return found

    def _types_of(self, relation_id: int) -> Types:
        """As they were announced last; none where the number of one is not known."""
        known = self._tables.writers.announced_last(relation_id)
        numbered = [(each.attnum, each.type_oid, each.typmod) for each in (known.table.columns if known else ())]
        types = frozenset((number, of, typmod) for number, of, typmod in numbered if number is not None)
        return types if len(types) == len(numbered) else frozenset()

    def _name(self, relation_id: int) -> str:
        return self._tables.versions.name(relation_id)


def _told(relation: Relation, change: Insert) -> ToldDdl | None:
    places = [place for place, column in enumerate(relation.columns) if column.name == DDL_COLUMN]
    fields = decode_tuple(change.new)
    text = sent_bytes(fields[places[0]]) if places and places[0] < len(fields) else None
    told = None if text is None else parse_told(text.decode(errors="replace"))
    if told is None:
        log.debug("a row about DDL that this version does not read")
    return told
