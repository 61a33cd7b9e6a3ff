"""What the server says of itself, as values: no connection needed to hold or compare them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from walbridge.schemas.position import Lsn
from walbridge.schemas.table_schema import quoted


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """IDENTIFY_SYSTEM: which cluster, which history of it.

    ``version`` as libpq tells it, e.g. 140024. ``switches``: earlier timeline → where its successor left it.
    """

    system_id: str
    timeline: int
    wal_end: Lsn
    database: str
    version: int
    switches: Mapping[int, Lsn] = field(default_factory=dict)


_WHY_LOST: Mapping[str | None, str] = {
    "idle_timeout": "nobody read it for as long as idle_replication_slot_timeout says",
    "wal_level_insufficient": "the server ran without wal_level = logical",
}


@dataclass(frozen=True, slots=True)
class SlotState:
    """Our row of pg_replication_slots. ``confirmed_flush`` is None while the slot is being made."""

    plugin: str | None
    database: str | None
    active_pid: int | None
    wal_status: str | None
    confirmed_flush: Lsn | None
    two_phase: bool
    failover: bool = False
    """Standbys keep it, too (17 and newer)."""
    invalidation_reason: str | None = None
    """Why it is lost, as 17 and newer say."""

    @property
    def why_lost(self) -> str | None:
        """Why nothing comes from it any more; None: it is not lost."""
        if self.wal_status != "lost":
            return None
        return _WHY_LOST.get(self.invalidation_reason, "the server removed WAL that was not read yet")


@dataclass(frozen=True, slots=True)
class CreatedSlot:
    """The snapshot shows exactly what committed before ``consistent_point``."""

    consistent_point: Lsn
    snapshot: str


@dataclass(frozen=True, slots=True)
class PublicationState:
    """Publications at one moment. ``members``: relation id → what makes it a member; others are none.

    ``oids``: by name, of those that are there. ``missing_operations``: which none of them publishes.
    ``lsn``: where the server's WAL stood. ``oldest_xid``: transactions below it have ended.
    ``generated_columns``: "s" where stored ones are published without being named (18 and newer); of several
    publications ``combined_publications.generated_columns_text``.
    ``names``: schema and table of each relation that was asked for and is there.
    ``snapshot``: of a moment before. ``others``: names by id of all other publications, where one asked for is missing.
    """

    oids: Mapping[str, int]
    missing_operations: tuple[str, ...]
    members: Mapping[int, str]
    lsn: Lsn
    generated_columns: str = "n"
    oldest_xid: int = 0
    names: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    snapshot: str = ""
    others: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Membership:
    """A table in one publication. ``row_filter``: None where all rows are published.

    ``operations``: those of insert, update, delete and truncate that it publishes. ``listed_names``: columns as the
    server compares them between publications, with generated ones on 15. ``has_list``: they are named in there.
    ``is_whole``: the table is in there with all tables, or with all of its schema.
    """

    publication: str
    operations: tuple[str, ...]
    column_names: tuple[str, ...]
    row_filter: str | None
    listed_names: frozenset[str]
    has_list: bool = False
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table of pg_publication_tables. ``column_names`` and ``row_filter`` are what is published, by all of its
    ``memberships`` together."""

    relation_id: int
    namespace: str
    name: str
    replica_identity: str
    column_names: tuple[str, ...]
    row_filter: str | None
    is_partitioned: bool
    memberships: tuple[Membership, ...] = ()

    @property
    def qualified_name(self) -> str:
        """``schema.table``."""
        return f"{self.namespace}.{self.name}"

    @property
    def quoted_name(self) -> str:
        """The qualified name, quoted for SQL."""
        return f"{quoted(self.namespace)}.{quoted(self.name)}"


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """One live column of a table. ``in_replica_identity`` as pgoutput flags it."""

    name: str
    type_oid: int
    typmod: int
    attnum: int
    nullable: bool
    in_primary_key: bool
    in_replica_identity: bool
    missing_value: str | None
    is_generated: bool = False
    """It may not be published, and is not told then."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table as the catalogue has it now. ``attnum_max``: of all columns it ever had; 0: not asked."""

    replica_identity: str
    columns: tuple[ColumnFacts, ...]
    attnum_max: int = 0
    namespace: str = ""
    name: str = ""
    is_partitioned: bool = False


@dataclass(frozen=True, slots=True)
class TableFile:
    """Where a table lies. ``toast``: the table of what is out of line, or 0; ``columns``: versions of their rows in the
    catalogue, where ``toast`` is 0; ``is_published_itself``: a publication names the table; ``written_by_xid``: the
    transaction that altered or emptied it last; ``index_offset``: how far behind the number of its own file that of its
    first index is, where ``toast`` is 0 and there is one, else 0.

    Of a partition, ``joined`` tells one time that it came to its parent from another; ``was_created_as_partition``: it
    was made as a partition, so it never had rows before; ``is_logged``: its changes are in the WAL, not so of unlogged
    and foreign ones; ``mark``: what progress remembers of its rows.
    """

    relation_id: int
    file: int
    toast: int
    column_count: int
    columns: str = ""
    joined: str = ""
    is_published_itself: bool = False
    was_created_as_partition: bool = False
    is_logged: bool = True
    written_by_xid: int = 0
    index_offset: int = 0
    mark: str = ""


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A column that a table got without a rewrite. ``value``: what rows that were there have in it, as text."""

    relation_id: int
    name: str
    type_oid: int
    typmod: int
    attnum: int
    value: str | None = None


@dataclass(frozen=True, slots=True)
class RowVersion:
    """A row of the catalogue as it was written last. ``xid``: 64 bits, or 0 long ago; ``command``: which one of that
    transaction, unless somebody stamped the row since: a lock, or what was rolled back. ``is_first``: it was written
    with what it is of, and never since."""

    xid: int
    command: int
    is_stamped: bool = False
    is_first: bool = False


@dataclass(frozen=True, slots=True)
class UsedType:
    """A type that a column is of, or that is within its type. ``column``: the row that says so, ``is_first``
    if it certainly came with the column; ``facts``: the rows by which values are printed, and which a change of them
    wrote. ``ended_below``: transactions below this xid had ended before what the slot brings."""

    relation_id: int
    type_oid: int
    column: RowVersion
    facts: tuple[RowVersion, ...]
    ended_below: int = 0


@dataclass(frozen=True, slots=True)
class TableStorage:
    """What tells that rows of a table are others, or read otherwise, though no change of them was sent.

    ``files``: its own, and those of the partitions below it. ``labels``: type and digest of each fact of its columns'
    types that rows are printed by: the labels of enums, by their ids, and which attributes composites have.
    ``knows_labels``: they were asked for, which earlier code did not. ``key``: the constraint of the table's primary
    key, 0 where it has none, or None where that was not asked for. ``withheld``: numbers of generated columns that are
    not published; none are remembered where earlier code did not ask for them. ``told``: up to where the stream has
    told the table's columns (``relations/columns/told_columns.py``), empty where that is not known.
    """

    files: tuple[TableFile, ...]
    labels: frozenset[str] = frozenset()
    knows_labels: bool = True
    key: int | None = None
    withheld: frozenset[int] = frozenset()
    told: str = ""


@dataclass(frozen=True, slots=True)
class Partition:
    """``name`` is quoted for SQL. ``never_sent``: why its changes are not in the WAL.

    ``key_columns``: of the replica identity's index; under FULL or NOTHING of the primary key. ``has_invalid_key``: a
    primary key that not all partitions have yet, and that the server tells as the key all the same.
    """

    root: int
    relation_id: int
    name: str
    replica_identity: str
    key_columns: frozenset[str]
    never_sent: str = ""
    has_invalid_key: bool = False

    @property
    def carries_updates(self) -> bool:
        """Whether Postgres takes an UPDATE or DELETE of it while it is published."""
        return self.replica_identity == "f" or (self.replica_identity in "di" and bool(self.key_columns))
