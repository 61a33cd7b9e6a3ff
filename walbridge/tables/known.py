"""The tables of a pipeline as a person names them: from progress, metadata and publication.

In: what Kafka and Postgres hold. Out: ``KnownTable``s, and those that a name may mean. Pure.
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
    """A table that is published, or that progress speaks of.

    ``progress``: None where the producer has not noticed it yet. ``is_published``: None where Postgres was not asked.
    ``has_key``: as far as the metadata topic tells. ``quoted_name``: for SQL. ``publications``: that publish it.
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
    """By name. ``published``: None where Postgres was not asked."""
    of_metadata = {record.table.relation_id: record for record in relations}  # the newest comes last
    of_publication = {table.relation_id: table for table in published or ()}
    of_progress: Mapping[int, TableProgress] = {} if progress is None else progress.tables

    def known(relation_id: int) -> KnownTable:
        record, table = of_metadata.get(relation_id), of_publication.get(relation_id)
        standing = of_progress.get(relation_id)
        name = table.qualified_name if table else standing.name if standing and standing.name else None
        name = name or (record.table.qualified_name if record else f"relation {relation_id}")
        topic = standing.topic if standing and standing.topic else record.topic if record else None
        is_published = None if published is None else table is not None
        # One that a record names but progress calls otherwise is gone from Postgres.
        in_sql = table.quoted_name if table else record.table.quoted_name if record else name
        members = table.memberships if table else ()
        return KnownTable(
            relation_id,
            name,
            topic,
            standing,
            is_published,
            record is None or bool(record.key_schema_id),
            in_sql,
            tuple(each.publication for each in members),
        )

    ids = (of_publication.keys() | of_progress.keys()) - {MESSAGES_RELATION_ID}
    return sorted(map(known, ids), key=lambda table: (table.name, table.relation_id))


def named(name: str, tables: Iterable[KnownTable]) -> list[KnownTable]:
    """Those that ``name`` may mean: by ``schema.table``, as SQL quotes it too, or else by the name without a schema.

    Raises:
        OperatorError: it names no table.
    """
    tables = list(tables)
    schema, plain = split_name(name)
    has_schema = name not in (plain, '"' + plain.replace('"', '""') + '"')
    exact = [table for table in tables if table.name == name or (has_schema and table.name == f"{schema}.{plain}")]
    without = {name} if has_schema else {name, plain}
    return exact or [table for table in tables if table.name.partition(".")[2] in without]


def the_one(name: str, found: Sequence[KnownTable]) -> KnownTable:
    """The only one of several.

    Raises:
        OperatorError: there are more.
    """
    if len({table.name for table in found}) > 1:
        names = ", ".join(sorted({table.name for table in found}))
        raise OperatorError(f"{name} may be any of {names}", remedy="name it with its schema, as schema.table")
    return max(found, key=lambda table: table.relation_id)


def unknown(name: str, tables: Iterable[KnownTable]) -> OperatorError:
    """No table has this name."""
    names = ", ".join(sorted({table.name for table in tables}))
    return OperatorError(
        f"this pipeline has no table {name}",
        remedy=f"name one of its tables: {names}" if names else "walbridge check says what the publication holds",
    )
