"""The messages of pgoutput, protocol version 1, in the manual's order.

Tuples stay bytes: ``new``, ``key`` and ``old`` are TupleData as sent, number of columns
included. The transcoder walks them once, on its way to Avro; ``decoder.decode_tuple`` is for
whoever wants fields. Source: PostgreSQL manual, "Logical Replication Message Formats".
"""

from dataclasses import dataclass
from enum import Enum

from schemas.position import Lsn


class Unsent(Enum):
    """A field that carries no value."""

    NULL = "n"
    UNCHANGED_TOAST = "u"  # out-of-line value that the update did not touch: unknown, not null


Field = bytes | Unsent


@dataclass(frozen=True, slots=True)
class Begin:
    final_lsn: Lsn  # of the commit record: equals Commit.commit_lsn
    commit_time_us: int  # since 1970; the origin's clock when replayed, so not monotonic
    xid: int


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
class StreamAbort:
    """Postgres 18.0 to 18.6 sends it unasked for a large aborted subtransaction: it means nothing here."""

    xid: int
    subxid: int


Message = StreamAbort | Begin | Commit | Origin | Relation | Type | Insert | Update | Delete | Truncate
