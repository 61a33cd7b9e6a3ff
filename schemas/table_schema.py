"""The shape of one table at one time: what a Relation message says plus what the catalogue adds.

In: Relation messages (producer) or Relation records (readers). Out: ``TableSchema``, from which
the Avro schemas and the lake's columns follow. Catalogue facts are None where the catalogue no
longer describes the relation as it was announced: it says *now*, the WAL says *then*.
"""

from dataclasses import dataclass, field

from walbridge.schemas.pg_types import ColumnType


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Column:
    """One column, in attnum order."""

    name: str
    type_oid: int
    type_name: str
    typmod: int
    column_type: ColumnType = field(repr=False)
    in_replica_identity: bool = False
    """The Relation message's flag; under FULL it is set on every column."""
    is_key: bool = False
    """Part of the Kafka key and of the lake's merge key."""
    attnum: int | None = None
    nullable: bool | None = None
    missing_value: str | None = None
    """Postgres' text of the column's value in rows that were published before the column was added; None for null.
    Source: ``pg_attribute.attmissingval``."""
    base_type: str | None = None
    """If the type is a domain: the name of its base type, through all domains in between."""
    base_typmod: int = -1


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A relation version. ``replica_identity`` is pg_class.relreplident: d, n, f or i."""

    relation_id: int
    namespace: str
    name: str
    replica_identity: str
    columns: tuple[Column, ...]
    root_relation_id: int | None = None
    """The relation's own id if it is a partitioned table under whose name its partitions are published; else None."""
    operations: tuple[str, ...] | None = None
    """The published operations of an archive; None for a table of which all operations come."""

    @property
    def is_root(self) -> bool:
        """Whether its partitions are published under its name. Postgres sends nothing when rows come or go with one."""
        return self.root_relation_id is not None

    @property
    def is_archive(self) -> bool:
        """Whether some operations are not published, so that the lake may keep rows that the source changed or
        deleted."""
        return self.operations is not None

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The columns of the key, empty for a table without one."""
        return tuple(column for column in self.columns if column.is_key)

    @property
    def qualified_name(self) -> str:
        """``schema.table``, for messages to people."""
        return f"{self.namespace}.{self.name}"

    @property
    def quoted_name(self) -> str:
        """The qualified name, quoted for SQL."""
        return f"{quoted(self.namespace)}.{quoted(self.name)}"

    @property
    def identity_full(self) -> str:
        """The SQL with which every UPDATE and DELETE comes with its whole old row."""
        return f"ALTER TABLE {self.quoted_name} REPLICA IDENTITY FULL"
