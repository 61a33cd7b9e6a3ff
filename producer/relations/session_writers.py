"""The record writers of one session, by relation id, and the relations that are not followed and so have none.

In: relation versions whose metadata is acknowledged (I2), and Relations of tables that are not followed. Out: the
writer for the next change of a table, or why there is none (I7); whether its version has had its shape barrier.
"""

from walbridge.producer.encoding.binary.lines import binary_columns
from walbridge.producer.encoding.binary.types import TypeReaders
from walbridge.producer.encoding.json_record import JsonRecordWriter
from walbridge.producer.encoding.label_texts import LabelTexts
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.pgoutput.messages import Relation
from walbridge.producer.relations.relation_cache import RelationCache
from walbridge.producer.relations.table_names import Name
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import OperatorError, copy_command
from walbridge.schemas.settings import Settings


class SessionWriters:
    """The writers of the session that runs now."""

    def __init__(self, settings: Settings, cache: RelationCache, database: str) -> None:
        self._settings, self._cache, self._database = settings, cache, database
        self._writers: dict[int, RecordWriter] = {}
        self._unfollowed: dict[int, Relation] = {}
        self._without_barrier: set[int] = set()
        self._readers: TypeReaders | None = None
        """Readers of binary values, by type; None where the session has no option ``binary``."""
        self.label_texts = LabelTexts(cache.type_facts)
        """Label names in rows that were encoded."""

    def begin(self, readers: TypeReaders | None) -> None:
        """A session announces every relation again."""
        self._readers, self.label_texts = readers, LabelTexts(self._cache.type_facts)
        self._writers.clear()
        self._unfollowed.clear()
        self._without_barrier.clear()

    def install(self, record: RelationRecord, *, is_compacted: bool) -> RecordWriter:
        """Make the writer of a version that begins here: its first event needs a shape barrier before it."""
        binary = None if self._readers is None else binary_columns(record.table, self._readers)
        writer = (JsonRecordWriter if record.is_json else RecordWriter)(
            record,
            self._settings.name,
            self._database,
            binary,
            self.label_texts.columns_of(record.table),
            tombstones=self._settings.topics.tombstones,
            is_compacted=is_compacted,
        )
        self._writers[record.table.relation_id] = writer
        self._without_barrier.add(record.table.relation_id)
        return writer

    def known(self, relation_id: int) -> RecordWriter | None:
        """The writer of a relation; None where it was not announced, or not to be followed."""
        return self._writers.get(relation_id)

    def note_unfollowed(self, relation: Relation) -> None:
        """The stream announced a relation that is not followed."""
        self._unfollowed[relation.relation_id] = relation

    def forget_unfollowed(self, relation_id: int) -> None:
        """The relation is followed from here on."""
        self._unfollowed.pop(relation_id, None)

    def of(self, relation_id: int) -> RecordWriter:
        """The writer of an announced relation.

        Raises:
            OperatorError: a change of a table whose copy this pipeline does not hold (I7).
        """
        try:
            return self._writers[relation_id]
        except KeyError:
            raise self._unknown(relation_id) from None

    def _unknown(self, relation_id: int) -> OperatorError:
        relation = self._unfollowed.get(relation_id)
        if relation is None:
            return OperatorError(
                f"a change of relation {relation_id}, which the stream did not announce",
                remedy="report this with the server's version; nothing was confirmed",
            )
        # The publication is looked up as of the change: taking the table out later does not help.
        name = f"{relation.namespace}.{relation.name}"
        return OperatorError(
            f"table {name} (relation {relation_id}) was added to the publication, or created again, after the copy",
            remedy=f"nothing was confirmed; {copy_command(name)}, then start walbridge produce again",
        )

    def name_of_unfollowed(self, relation_id: int) -> str:
        """``schema.table`` of a table that is not followed, as it was announced last.

        Raises:
            OperatorError: it was never announced.
        """
        relation = self._unfollowed.get(relation_id)
        if relation is not None:
            return f"{relation.namespace}.{relation.name}"
        record = self._cache.newest_of(relation_id)
        if record is None:
            raise self._unknown(relation_id)
        return record.table.qualified_name

    def forget(self, relation_id: int) -> None:
        """Stop following the table: a later change of it is one of a table without a copy."""
        self._writers.pop(relation_id, None)
        self.label_texts.forget(relation_id)

    def take_shape_barrier(self, relation_id: int) -> bool:
        """Whether the next event of this table needs a shape barrier; true only once for each version."""
        if relation_id not in self._without_barrier:
            return False
        self._without_barrier.discard(relation_id)
        return True

    def current_version(self, relation_id: int) -> RelationRecord | None:
        """The version for the next change of a table, as far as the stream or the metadata topic shows it."""
        writer = self._writers.get(relation_id)
        return writer.relation if writer is not None else self._cache.newest_of(relation_id)

    def name_of(self, relation_id: int) -> Name | None:
        """Schema and name in the table's ``current_version``."""
        known = self.current_version(relation_id)
        return None if known is None else (known.table.namespace, known.table.name)
