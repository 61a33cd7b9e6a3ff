"""Labels of enums that came since a table was last looked at, and rows that hold one under a name that it has no more.

In: labels as progress remembers them and as a look finds them; rows that the stream brings behind that look, of
transactions that may have ended before it. Out: whether a row holds a text that is no label, so that who reads the
table now reads another one (I8).

Who adds a label leaves the trace of one that renames it. Where the stream lags, a label may have been added, given to
rows and renamed before anybody looked: these rows still come, with the label's name of then. Once the stream has passed
the look, every label that rows hold has been seen, and a new name of it shows. Until then progress keeps the labels
that it has, so that a start finds the same.

Not told: a row that came before the look, and a label inside of a composite, a range, or an array of several
dimensions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from walbridge.producer.guards.doubts.altered_types import new_facts
from walbridge.producer.pgoutput.decoder import decode_tuple
from walbridge.producer.pgoutput.messages import Delete, Field, Insert, Update, sent_bytes
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import TableStorage
from walbridge.schemas.avro.value_encoders import split_array
from walbridge.schemas.pg_types import FIRST_USER_OID, TypeFacts
from walbridge.schemas.position import Lsn
from walbridge.schemas.table_schema import TableSchema

Row = Insert | Update | Delete


def tuples_of(change: Row) -> list[bytes]:
    """The new row of a change, and what comes of the old one."""
    new = [] if isinstance(change, Delete) else [change.new]
    old = [] if isinstance(change, Insert) else [change.key, change.old]
    return [*new, *(each for each in old if each is not None)]


class NewLabels:
    """Those of one session.

    Args:
        insert_lsn: asks where the server's WAL stands.
    """

    def __init__(self, connection: SqlConnection, insert_lsn: Callable[[], Lsn]) -> None:
        self._connection, self._insert_lsn = connection, insert_lsn
        self._noted: dict[int, frozenset[str]] = {}
        self._until: dict[int, Lsn] = {}
        """By table: the transactions whose rows are to be looked at have ended before this position."""
        self._types: dict[int, TypeFacts] = {}
        self.on_noted: Callable[[int], None] = lambda relation_id: None
        """Told a table of which each row is to be shown from here on."""

    def compare(self, known: Mapping[int, TableStorage], found: Mapping[int, TableStorage]) -> set[int]:
        """Note new labels of these tables; those of which nothing may be remembered yet."""
        facts = {each: new_facts(known[each], now) for each, now in found.items()}
        noted = [each for each, new in facts.items() if new and new != self._noted.get(each)]
        self._noted |= facts
        if noted:
            self._until |= dict.fromkeys(noted, self._insert_lsn())
            self._types.clear()
        for relation_id in noted:
            self.on_noted(relation_id)
        return self._until.keys() & found.keys()

    def pass_to(self, end: Lsn) -> None:
        """All transactions that ended before this position have come."""
        self._until = {each: until for each, until in self._until.items() if end < until}

    def awaits(self, relation_id: int, commit_lsn: Lsn) -> bool:
        """Whether rows of this table are to be looked at, of a transaction that commits there."""
        until = self._until.get(relation_id)
        return until is not None and commit_lsn < until

    def are_known(self, table: TableSchema, tuples: Iterable[bytes]) -> bool:
        """Whether every text in these tuples of the table that is to be a label is one now.

        Raises:
            RetryableError, OperatorError: the server is away or refuses.
        """
        labels = {(of, text) for each in tuples for of, text in self._labels_in(table, each)}
        if any(text not in self._types[of].enum_labels for of, text in labels):
            self._types.clear()  # it may have been added since
            self._ask(table)
        return all(of in self._types and text in self._types[of].enum_labels for of, text in labels)

    def _labels_in(self, table: TableSchema, data: bytes) -> Iterator[tuple[int, str]]:
        self._ask(table)
        for column, value in zip(table.columns, decode_tuple(data), strict=False):
            facts = self._types.get(column.type_oid)
            if facts is None:
                continue
            if facts.kind == "a":
                of, texts = self._enum(facts.element_type), _elements(value)
            else:
                of, texts = self._enum(column.type_oid), [sent_bytes(value)]
            if of is not None:
                yield from ((of, text.decode()) for text in texts if text is not None)

    def _enum(self, type_oid: int | None) -> int | None:
        """The enum that it is, by way of domains as well."""
        facts = None if type_oid is None else self._types.get(type_oid)
        while facts is not None and facts.kind == "d" and facts.base_type is not None:
            facts = self._types.get(facts.base_type)
        return facts.oid if facts is not None and facts.kind == "e" else None

    def _ask(self, table: TableSchema) -> None:
        wanted = {column.type_oid for column in table.columns if column.type_oid >= FIRST_USER_OID}
        if wanted - self._types.keys():
            self._types |= catalog.type_facts(self._connection, wanted)


def _elements(value: Field) -> list[bytes | None]:
    return (split_array(value) or []) if isinstance(value, bytes) else []
