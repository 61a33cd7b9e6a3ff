"""Relation messages and the catalogue's facts of a table, in short."""

from collections.abc import Sequence

from walbridge.producer.pgoutput.messages import Relation, RelationColumn
from walbridge.producer.postgres.facts import ColumnFacts, TableFacts
from walbridge.producer.relations.relation_cache import DataTopic, RelationCache
from walbridge.producer.relations.table_description import describe
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.table_schema import TableSchema

TOPIC = DataTopic("p.public.orders", 4)
INT4, TEXT = 23, 25


def relation(identity: str, *flags: bool) -> Relation:
    """Columns a, b, c … of int4, flagged or not."""
    columns = tuple(RelationColumn(flag, "abcdef"[i], INT4, -1) for i, flag in enumerate(flags))
    return Relation(16_384, "public", "orders", identity, columns)


def facts(identity: str, *primary: bool) -> TableFacts:
    """The same columns in the catalogue; ``primary``: in the primary key."""
    columns = tuple(
        ColumnFacts("abcdef"[i], INT4, -1, 10 + i, not flag, flag, flag, None) for i, flag in enumerate(primary)
    )
    return TableFacts(identity, columns)


def versions(*tables: TableSchema, topics: Sequence[DataTopic] = ()) -> list[RelationRecord]:
    cache = RelationCache("p")
    records = []
    for of, topic in zip(tables, topics or [TOPIC] * len(tables), strict=True):
        records.append(cache.version_of(of, topic))
        cache.remember(records[-1])
    return records


def announcement(identity: str, *columns: str) -> Relation:
    """Columns of int4, or of text where a name ends so."""
    made = tuple(RelationColumn(identity == "f", name, TEXT if name.endswith("text") else INT4, -1) for name in columns)
    return Relation(16_384, "public", "orders", identity, made)


def catalogue(*columns: tuple[str, int], primary: Sequence[str] = (), last: int) -> TableFacts:
    """Name and attribute number of each column that is there now."""
    made = tuple(
        ColumnFacts(name, TEXT if name.endswith("text") else INT4, -1, number, True, name in primary, True, None)
        for name, number in columns
    )
    return TableFacts("f", made, last)


def recorded(*told: tuple[Relation, TableFacts | None], partitions: int = 1) -> list[RelationRecord]:
    """Versions, each announced while the catalogue knew this; the first by a copy."""
    cache = RelationCache("p")
    for relation_told, known in told:
        table_told = describe(relation_told, known, {}, cache.versions_of(16_384))
        cache.remember(cache.version_of(table_told, DataTopic("p.public.orders", partitions)))
    return cache.versions_of(16_384)


AB = catalogue(("a", 1), ("b", 2), primary=["a"], last=2)
