"""The messages of pgoutput, protocol versions 1 to 4, in the manual's order.

Tuples stay bytes: ``new``, ``key`` and ``old`` are TupleData as sent, number of columns
included. The transcoder walks them once, on its way to Avro; ``decoder.decode_tuple`` is for
whoever wants fields. A change is the same value streamed or not: the xid that a streamed one
carries stands beside it (``streamed.py``). Times are microseconds since 1970.
Source: PostgreSQL manual, "Logical Replication Message Formats".
"""

from dataclasses import dataclass
from enum import Enum

from walbridge.schemas.position import Lsn


class Unsent(Enum):
    """A field that carries no value."""

    NULL = "n"
    UNCHANGED_TOAST = "u"  # out-of-line value that the update did not touch: unknown, not null


@dataclass(frozen=True, slots=True)
class Binary:
    """A field in its type's binary format: option ``binary``, and a type that has a send function."""

    data: bytes


Field = bytes | Binary | Unsent
"""Text, unless it says otherwise. One tuple may mix all kinds."""


def sent_bytes(field: Field) -> bytes | None:
    """What was sent of a field, in either format; None where nothing was."""
    found = field.data if isinstance(field, Binary) else field
    return found if isinstance(found, bytes) else None


@dataclass(frozen=True, slots=True)
class Begin:
    final_lsn: Lsn  # of the commit record: equals Commit.commit_lsn
    commit_time_us: int  # the origin's clock when replayed: not monotonic, and held within the years 1 to 9999
    xid: int


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """The manual's "Message": what pg_logical_emit_message wrote, option ``messages``."""

    transactional: bool  # if not, it comes at once, outside every transaction, rolled back or not
    message_lsn: Lsn  # end of its record: what pg_logical_emit_message returned
    prefix: str
    content: bytes  # raw, in no encoding


@dataclass(frozen=True, slots=True)
class Commit:
    commit_lsn: Lsn  # start of the commit record
    end_lsn: Lsn  # first byte after it: only this one is confirmed
    commit_time_us: int


@dataclass(frozen=True, slots=True)
class Origin:
    origin_lsn: Lsn  # the commit on the origin server
    name: str


@dataclass(frozen=True, slots=True)
class RelationColumn:
    in_replica_identity: bool  # under FULL it is set on every column
    name: str
    type_oid: int
    typmod: int


@dataclass(frozen=True, slots=True)
class Relation:
    relation_id: int  # pg_class.oid
    namespace: str  # empty for pg_catalog
    name: str
    replica_identity: str  # pg_class.relreplident: d, n, f or i
    columns: tuple[RelationColumn, ...]  # in attnum order, dropped ones omitted


@dataclass(frozen=True, slots=True)
class Type:
    type_oid: int
    namespace: str  # of the base type, where the type is a domain
    name: str


@dataclass(slots=True)  # not frozen: that would double the cost of the one message that comes by the million
class Insert:
    relation_id: int
    new: bytes


@dataclass(frozen=True, slots=True)
class Update:
    relation_id: int
    key: bytes | None  # 'K': the identity changed or is out of line; full width, other fields null but unknown
    old: bytes | None  # 'O': the whole old row, replica identity FULL
    new: bytes  # may hold unchanged TOAST


@dataclass(frozen=True, slots=True)
class Delete:
    relation_id: int
    key: bytes | None  # 'K'
    old: bytes | None  # 'O'


@dataclass(frozen=True, slots=True)
class Truncate:
    cascade: bool
    restart_identity: bool
    relation_ids: tuple[int, ...]  # cascaded ones included


@dataclass(frozen=True, slots=True)
class StreamStart:
    xid: int  # of the top-level transaction; each change has that of its subtransaction
    is_first: bool


@dataclass(frozen=True, slots=True)
class StreamStop:
    """The block ends; its transaction goes on in a later one, or ends."""


@dataclass(frozen=True, slots=True)
class StreamCommit:
    xid: int
    commit_lsn: Lsn
    end_lsn: Lsn
    commit_time_us: int


@dataclass(frozen=True, slots=True)
class StreamAbort:
    """The changes of ``subxid`` are void: those of the whole transaction where it equals ``xid``.

    Legal for xids never heard of. Postgres 18.0 to 18.6 sends it even to sessions without
    streaming, for a large aborted subtransaction.
    """

    xid: int
    subxid: int
    abort_lsn: Lsn | None = None  # only with streaming = parallel; 0 where a crash aborted it
    abort_time_us: int | None = None


@dataclass(frozen=True, slots=True)
class BeginPrepare:
    prepare_lsn: Lsn
    end_lsn: Lsn  # of the prepare record
    prepare_time_us: int
    xid: int
    gid: str  # may be empty; unique only among those prepared at one time


@dataclass(frozen=True, slots=True)
class Prepare:
    prepare_lsn: Lsn
    end_lsn: Lsn
    prepare_time_us: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class CommitPrepared:
    commit_lsn: Lsn
    end_lsn: Lsn
    commit_time_us: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class RollbackPrepared:
    prepare_end_lsn: Lsn  # with prepare_time_us: tells which prepare of this gid is meant
    rollback_end_lsn: Lsn
    prepare_time_us: int
    rollback_time_us: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class StreamPrepare:
    """A streamed transaction is prepared: Prepare of what came in blocks."""

    prepare_lsn: Lsn
    end_lsn: Lsn
    prepare_time_us: int
    xid: int
    gid: str


Change = Insert | Update | Delete | Truncate
Message = (
    Begin
    | LogicalMessage
    | Commit
    | Origin
    | Relation
    | Type
    | Change
    | StreamStart
    | StreamStop
    | StreamCommit
    | StreamAbort
    | BeginPrepare
    | Prepare
    | CommitPrepared
    | RollbackPrepared
    | StreamPrepare
)
