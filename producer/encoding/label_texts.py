"""Collects the names of enum labels in encoded rows, so that each can be looked up in the catalogue before a cut.

In: the columns of a relation version, with the facts of their types; each value of a column that may hold labels, as
text or in its type's binary format. Out: by table and enum the names that were new, with the earliest transaction that
brought each. They are taken once (``guards/doubts/new_labels.py``).

A name or value that was seen before costs one look into a set. What is remembered of a table is shared by its
versions, and bounded: names by the number of labels that its enums had, whole values by ``VALUES_MAX``. Where labels
are in a value, ``label_finders.py`` knows.

A name that was met may have been another label's for a transaction that was open before: in one that began earlier
than those that brought new names, all names count as new again.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from walbridge.producer.encoding.label_finders import LabelColumns, LabelFinders, MetLabels
from walbridge.schemas.pg_types import FIRST_USER_OID, TypeFacts
from walbridge.schemas.position import Lsn
from walbridge.schemas.table_schema import TableSchema

TEXTS_MAX = 50_000
"""The most new names of all tables between two cuts. A name has at most 63 bytes."""


class Use(NamedTuple):
    """A transaction that brought a name. ``xid``: as in the stream; ``first_lsn``: none of its changes stands before
    this WAL position."""

    xid: int
    first_lsn: Lsn


Texts = dict[bytes, frozenset[Use | None]]
"""By name its uses, of those of the stream the earliest; None: a copy brought it."""
_NOWHERE_YET = Lsn(2**64 - 1)


class LabelTexts:
    """The names of labels in the rows of one session.

    Args:
        type_facts: returns the facts of a user type; None where they are not known.
    """

    def __init__(self, type_facts: Callable[[int], TypeFacts | None]) -> None:
        self._type_facts = type_facts
        self._met: dict[int, MetLabels] = {}
        self._found: dict[int, dict[int, Texts]] = {}
        """By table and enum, the names that were not taken yet."""
        self._count = 0
        self._noted_until = Lsn(0)
        """The greatest ``first_lsn`` of the transactions that brought new names."""
        self.use: Callable[[], Use | None] = lambda: None
        """Returns the transaction that is being read; None where there is none, as in a copy."""

    def columns_of(self, table: TableSchema) -> LabelColumns:
        """How labels are found in the columns of a relation version."""
        if all(column.type_oid < FIRST_USER_OID for column in table.columns):
            return None
        met = self._met.setdefault(table.relation_id, MetLabels())
        finders = LabelFinders(self._type_facts, met, partial(self._note, table.relation_id, met))
        columns = [finders.of_column(column.type_oid) for column in table.columns]
        return columns if any(columns) else None

    def begin_transaction(self, first_lsn: Lsn) -> None:
        """The stream brings a transaction, none of whose changes stands before this WAL position."""
        if first_lsn < self._noted_until:
            for each in self._met.values():
                each.forget()

    def place_copied(self, insert_lsn: Callable[[], Lsn]) -> None:
        """A copy may have brought new names; its rows were read before the WAL position that is returned."""
        if self._noted_until == _NOWHERE_YET:
            self._noted_until = insert_lsn()

    def take(self) -> dict[int, dict[int, Texts] | None]:
        """By table and enum, the names that were new since the last call; None for a table of which there were more
        than are kept."""
        taken: dict[int, dict[int, Texts] | None] = {}
        for relation_id, met in self._met.items() if self._count else ():
            found = self._found.pop(relation_id, None)
            if found or met.is_too_much:
                taken[relation_id] = None if met.is_too_much else found
                met.is_too_much = False
        self._count = 0
        return taken

    def forget(self, relation_id: int) -> None:
        """Count all names in rows of this table as new again, and let go of those that were not taken."""
        self._found.pop(relation_id, None)
        if relation_id in self._met:
            self._met[relation_id].forget()
            self._met[relation_id].is_too_much = False

    def _note(self, relation_id: int, met: MetLabels, enum: int, text: bytes) -> None:
        found = self._found.setdefault(relation_id, {}).setdefault(enum, {})
        self._count += text not in found
        if self._count > TEXTS_MAX:
            met.is_too_much = True
            return
        use = self.use()
        self._noted_until = max(self._noted_until, _NOWHERE_YET if use is None else use.first_lsn)
        met.texts[enum].add(text)
        found[text] = _with(found.get(text, frozenset()), use)


def _with(uses: frozenset[Use | None], use: Use | None) -> frozenset[Use | None]:
    """Of two transactions what is earlier of each: the one with the lower xid may have its first change later."""
    before = next((each for each in uses if each is not None), None)
    if use is None or before is None:
        return uses | {use}
    is_lower = (use.xid - before.xid) % 2**32 >= 2**31
    earliest = Use(use.xid if is_lower else before.xid, min(use.first_lsn, before.first_lsn))
    return uses - {before} | {earliest}
