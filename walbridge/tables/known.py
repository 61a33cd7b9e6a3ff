"""All tables of a pipeline, from progress, metadata and publication, and which of them a name means. Pure.

In: records of Kafka and rows of Postgres. Out: ``KnownTable``s.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from walbridge.producer.postgres.facts import PublishedTable
from walbridge.schemas.control.message_schema import MESSAGES_RELATION_ID
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.control.table_progress import COPYING, CURRENT, TableProgress
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.table_names import split_name


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table that is published, or that is in progress.

    ``progress``: None where the producer has not noticed it yet. ``is_published``: None where Postgres was not asked.
    ``has_key``: by the metadata topic; True if that has no record of it. ``quoted_name``: for SQL.
    ``publications``: those that publish it.
    """

    relation_id: int
    name: str
    topic: str | None
    progress: TableProgress | None
    is_published: bool | None
    has_key: bool = True
    quoted_name: str = ""
    publications: tuple[str, ...] = ()

    @property
    def is_followed(self) -> bool:
        """Whether its changes are published."""
        return self.progress is not None and self.progress.state in (CURRENT, COPYING)


def known_tables(
    progress: Progress | None, relations: Iterable[RelationRecord], published: Sequence[PublishedTable] | None
) -> list[KnownTable]:
    """All tables, in the order of their names. ``published``: None where Postgres was not asked."""
    of_metadata = {record.table.relation_id: record for record in relations}  # the newest comes last
    of_publication = {table.relation_id: table for table in published or ()}
    of_progress: Mapping[int, TableProgress] = {} if progress is None else progress.tables

    def known(relation_id: int) -> KnownTable:
        record, table = of_metadata.get(relation_id), of_publication.get(relation_id)
        table_progress = of_progress.get(relation_id)
        name = (
            table.qualified_name if table else table_progress.name if table_progress and table_progress.name else None
        )
        name = name or (record.table.qualified_name if record else f"relation {relation_id}")
        topic = table_progress.topic if table_progress and table_progress.topic else record.topic if record else None
        is_published = None if published is None else table is not None
        # A table that is in no publication may have another name in its last metadata record.
        in_sql = table.quoted_name if table else record.table.quoted_name if record else name
        members = table.memberships if table else ()
        return KnownTable(
            relation_id,
            name,
            topic,
            table_progress,
            is_published,
            record is None or bool(record.key_schema_id),
            in_sql,
            tuple(each.publication for each in members),
        )

    ids = (of_publication.keys() | of_progress.keys()) - {MESSAGES_RELATION_ID}
    return sorted(map(known, ids), key=lambda table: (table.name, table.relation_id))


def tables_named(name: str, tables: Iterable[KnownTable]) -> list[KnownTable]:
    """The tables that ``name`` may mean: those with this ``schema.table``, which may be quoted as in SQL; if there is
    none, those with this name in any schema.

    Raises:
        OperatorError: it is no name of a table.
    """
    tables = list(tables)
    schema, plain = split_name(name)
    has_schema = name not in (plain, '"' + plain.replace('"', '""') + '"')
    exact = [table for table in tables if table.name == name or (has_schema and table.name == f"{schema}.{plain}")]
    without = {name} if has_schema else {name, plain}
    return exact or [table for table in tables if table.name.partition(".")[2] in without]


def single_table(name: str, found: Sequence[KnownTable]) -> KnownTable:
    """The table that a name means, of those found for it; of tables with one full name the newest.

    Raises:
        OperatorError: the tables found have different full names.
    """
    if len({table.name for table in found}) > 1:
        names = ", ".join(sorted({table.name for table in found}))
        raise OperatorError(f"{name} may be any of {names}", remedy="name it with its schema, as schema.table")
    return max(found, key=lambda table: table.relation_id)


def unknown_table(name: str, tables: Iterable[KnownTable]) -> OperatorError:
    """The error for a name that no table has."""
    names = ", ".join(sorted({table.name for table in tables}))
    return OperatorError(
        f"this pipeline has no table {name}",
        remedy=f"name one of its tables: {names}" if names else "walbridge check says what the publication holds",
    )
