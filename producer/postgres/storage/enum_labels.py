"""The labels of enums as the catalogue has them now.

In: type oids. Out: each label with its name, who wrote it last, and what ``TableStorage.labels`` says of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from walbridge.producer.copying.visibility import FIRST_NORMAL_XID, widen
from walbridge.producer.postgres.catalog import rows_of
from walbridge.producer.postgres.connection import SqlConnection

FACT = "{0}::text || '-' || left(md5({1}), 8)"
"""SQL: one of ``TableStorage.labels``, by the oid of its type and what is said of that."""
LABEL_SAID = "e.oid::text || ' ' || e.enumlabel"
BY_SAID = "'by ' || e.xmin::text || ' ' || {oids}"
"""``oids``: of the labels of one type that the transaction wrote last, in their order, with commas."""

_OF_WRITER = """
    string_agg(e.oid::text, ',') OVER (
      PARTITION BY e.enumtypid, e.xmin::text ORDER BY e.oid ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"""
_LABELS = f"""
    SELECT e.enumtypid::bigint, e.enumlabel::text, e.xmin::text::bigint, txid_snapshot_xmax(txid_current_snapshot()),
           {FACT.format("e.enumtypid", LABEL_SAID)}, {FACT.format("e.enumtypid", BY_SAID.format(oids=_OF_WRITER))}
    FROM pg_enum e WHERE e.enumtypid = ANY (%s)"""


@dataclass(frozen=True, slots=True)
class EnumLabel:
    """``xid``: of 64 bits, the transaction that wrote it last; 0 long ago. ``xmax``: no transaction from there on had
    begun. ``fact``: what tells this label by this name; ``writer_fact``: which labels its last writer wrote."""

    xid: int
    xmax: int
    fact: str
    writer_fact: str


def enum_labels(connection: SqlConnection, type_oids: Iterable[int]) -> dict[int, dict[bytes, EnumLabel]]:
    """By enum and name, of those that are there.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    found: dict[int, dict[bytes, EnumLabel]] = {}
    for type_oid, name, xid, xmax, fact, writer_fact in rows_of(connection, _LABELS, (list(type_oids),)):
        wide = widen(xid, xmax) if xid >= FIRST_NORMAL_XID else 0
        label = EnumLabel(wide if wide < xmax else 0, xmax, fact, writer_fact)
        found.setdefault(type_oid, {})[name.encode()] = label
    return found
