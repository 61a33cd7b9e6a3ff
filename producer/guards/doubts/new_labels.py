"""Labels of enums that came since a table was last looked at, and rows that hold one under a name that it has no more.

In: labels as progress remembers them and as a look finds them; the names of labels that rows were encoded with
(``encoding/label_texts.py``), before a cut says that these rows are those of their source. Out: tables of which such a
name is no label's, or may have been another one's, so that a query of the source now shows another name (I8).

Adding a label leaves the same trace in the catalogue as renaming one. A label that was added, given to rows and renamed
before anybody looked is found by its first name alone: a row has it, and the catalogue knows no label of that name. One
that the catalogue knows is remembered from then on with the table, in the progress of the cut that the row is in, so
that a rename of it shows (``altered_types.py``). That name may have been another label's before, which is new as well:

- a transaction with a higher xid than the one that wrote the label last had that label, unless both labels were
  written by the same one;
- so had one that commits after a look which found the label by that name.

A row of any other has its table copied. What a look finds is remembered once the stream has passed it; until then
progress keeps the labels that it has, so that a start finds the same.

Not noticed: a name that was given to another label while the transaction that had used it stayed open, where a look
found each of the two labels in its time; labels within a range; and what older rows have in a column that was added.
"""

from collections.abc import Callable, Iterable, Mapping

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.copying.visibility import widen
from walbridge.producer.encoding.label_texts import Texts, Use
from walbridge.producer.guards.doubts.altered_types import new_label_facts, type_of
from walbridge.producer.guards.doubts.rewrites import from_text, with_labels
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import TableStorage
from walbridge.producer.postgres.storage.enum_labels import EnumLabel, enum_labels
from walbridge.producer.relations.session_writers import SessionWriters
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.position import Lsn

Labels = Mapping[bytes, EnumLabel]
"""Of one enum, by name."""


class NewLabels:
    """Those of one session.

    Args:
        writers: which encode rows.
        insert_lsn: asks where the server's WAL stands.
    """

    def __init__(
        self,
        connection: SqlConnection,
        tracker: ProgressTracker,
        writers: SessionWriters,
        insert_lsn: Callable[[], Lsn],
    ) -> None:
        self._connection, self._tracker = connection, tracker
        self._writers, self._insert_lsn = writers, insert_lsn
        self._noted: dict[int, frozenset[str]] = {}
        """By table: what the last look found that progress does not remember."""
        self._until: dict[int, Lsn] = {}
        """By table: what was noted had been found before this position."""

    def compare(self, known: Mapping[int, TableStorage], found: Mapping[int, TableStorage]) -> set[int]:
        """Note new labels of these tables; those of which nothing may be remembered yet."""
        facts = {each: new_label_facts(known[each], now) for each, now in found.items()}
        noted = [each for each, new in facts.items() if new - self._noted.get(each, frozenset())]
        self._noted |= facts
        if noted:
            self._until |= dict.fromkeys(noted, self._insert_lsn())
        return self._until.keys() & found.keys()

    def pass_to(self, end: Lsn) -> None:
        """All transactions that ended before this position have come."""
        self._until = {each: until for each, until in self._until.items() if end < until}

    def explain(self) -> set[int]:
        """Ask of each name that came since the last call which label it is, and remember it; tables of which one is
        none, or may have been another one.

        Raises:
            RetryableError, OperatorError: the server is away or refuses.
        """
        found = self._writers.label_texts.take()
        if not found:
            return set()
        labels = enum_labels(self._connection, {enum for enums in found.values() for enum in enums or ()})
        tables = self._tracker.progress.tables
        explained, doubted = dict[int, TableProgress](), set[int]()
        for relation_id, enums in found.items():
            table = tables.get(relation_id)
            if table is None:
                continue
            if enums is None:
                doubted.add(relation_id)
                continue
            facts = self._facts(relation_id, from_text(table.storage or ""), enums, labels)
            if facts is None:
                doubted.add(relation_id)
            elif (after := with_labels(table, facts)) is not table:
                explained[relation_id] = after
        if explained:
            self._tracker.remember_tables(explained)
        return doubted

    def _facts(
        self, relation_id: int, known: TableStorage, enums: Mapping[int, Texts], labels: Mapping[int, Labels]
    ) -> set[str] | None:
        """What is to be remembered of these texts in the table's rows; None where one of them is no label's."""
        # Nothing is remembered of what is no column's type any more, or was not asked for; one that just came to the
        # table is compared with its column (``altered_types.py``).
        types = {type_of(each) for each in known.labels}
        facts: set[str] = set()
        for enum, texts in enums.items():
            of = labels.get(enum)
            if enum not in types or of is None:
                continue
            for text, use in texts.items():
                label = of.get(text)
                if label is None or not self._is_certain(relation_id, known, label, of.values(), use):
                    return None
                facts |= {label.fact, label.writer_fact}
        return facts

    def _is_certain(
        self, relation_id: int, known: TableStorage, label: EnumLabel, labels: Iterable[EnumLabel], use: Use | None
    ) -> bool:
        """Whether the name was this label's when it was used."""
        if label.fact in known.labels or self._was_found_before(relation_id, label, use):
            return True
        others = [each for each in labels if each is not label and each.fact not in known.labels]
        if not others:
            return True
        is_later = use is not None and widen(use.xid, label.xmax) > label.xid
        return is_later and all(each.xid != label.xid for each in others)

    def _was_found_before(self, relation_id: int, label: EnumLabel, use: Use | None) -> bool:
        """Whether a look found the label by this name before the transaction committed."""
        if label.fact not in self._noted.get(relation_id, ()):
            return False
        until = self._until.get(relation_id)
        return until is None or (use is not None and use.commit_lsn >= until)
