"""The labels of enums as the catalogue has them now.

In: type oids. Out: each label with its name, who wrote it last, and what ``TableStorage.labels`` says of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from walbridge.producer.copying.visibility import FIRST_NORMAL_XID, widen
from walbridge.producer.postgres.catalog import rows_of
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.storage.used_types import WITH_MADE

FACT = "{0}::text || '-' || left(md5({1}), 8)"
"""SQL: one of ``TableStorage.labels``, by the oid of its type and what is said of that."""
LABEL_SAID = "e.oid::text || ' ' || e.enumlabel"
BY_SAID = "'by ' || e.xmin::text || ' ' || {oids}"
"""``oids``: of the labels of one type that the transaction wrote last, in their order, with commas."""

_OF_WRITER = """
    string_agg(e.oid::text, ',') OVER (
      PARTITION BY e.enumtypid, e.xmin::text ORDER BY e.oid ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"""
_IS_AS_MADE = """
           coalesce(e.xmax::text = '0' AND m.xmax::text = '0' AND e.xmin = m.xmin
             AND e.cmin::text::bigint <= m.cmin::text::bigint, false)"""
_LABELS = f"""
    SELECT e.enumtypid::bigint, e.enumlabel::text, txid_snapshot_xmax(txid_current_snapshot()),
           e.xmin::text::bigint,
           (SELECT catalog_xmin::text::bigint FROM pg_replication_slots WHERE slot_name = %s),
           e.cmin::text = '0' AND e.xmax::text = '0', {_IS_AS_MADE},
           {FACT.format("e.enumtypid", LABEL_SAID)}, {FACT.format("e.enumtypid", BY_SAID.format(oids=_OF_WRITER))}
    FROM pg_enum e JOIN pg_type y ON y.oid = e.enumtypid {WITH_MADE} WHERE e.enumtypid = ANY (%s)"""


@dataclass(frozen=True, slots=True)
class EnumLabel:
    """``xid``: of 64 bits, the transaction that wrote it last; 0 long ago. ``xmax``: no transaction from there on had
    begun. ``fact``: what tells this label by this name; ``writer_fact``: which labels its last writer wrote.
    ``is_first``: the command that wrote it was the first of its transaction that wrote anything. ``is_as_made``: that
    command made the type. ``is_old``: the transaction had ended before all that the slot brings."""

    xid: int
    xmax: int
    fact: str
    writer_fact: str
    is_first: bool = True
    is_as_made: bool = False
    is_old: bool = False


def enum_labels(connection: SqlConnection, type_oids: Iterable[int], slot: str) -> dict[int, dict[bytes, EnumLabel]]:
    """By enum and name, of those that are there.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    found: dict[int, dict[bytes, EnumLabel]] = {}
    rows = rows_of(connection, _LABELS, (slot, list(type_oids)))
    for type_oid, name, xmax, xid, horizon, is_first, is_as_made, fact, writer_fact in rows:
        wide, ended_below = _widened(xid, xmax), _widened(horizon or 0, xmax)
        label = EnumLabel(wide, xmax, fact, writer_fact, is_first, is_as_made, wide < max(ended_below, 1))
        found.setdefault(type_oid, {})[name.encode()] = label
    return found


def _widened(xid: int, xmax: int) -> int:
    """0 for what was written long ago."""
    wide = widen(xid, xmax) if xid >= FIRST_NORMAL_XID else 0
    return wide if wide <= xmax else 0
