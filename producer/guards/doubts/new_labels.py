"""New enum labels: whether a name that rows were sent with is still the name of the same label.

In: labels as progress remembers them and as a look finds them; the names of labels in encoded rows
(``encoding/label_texts.py``), before the cut that contains these rows. Out: tables with a name in their rows that no
label has now, or that another label may have had, so that a query of the source shows another name (I8).

Adding a label leaves the same trace in the catalogue as renaming one. If a label was added, used in rows and renamed,
all before a look, only its first name in a row shows that: the catalogue has no label of that name. A name that the
catalogue does have is remembered with the table from then on, in the progress of the row's cut, so that a later rename
shows (``columns/altered_types.py``). But that name may have belonged to another new label before. It is certain that a
transaction used the label that has the name now, if

- its xid is higher than that of the transaction that wrote the label last, and that one wrote no other new label;
- or it commits after a look that found the label under this name.

In any other case the table is copied again. What a look finds is remembered once the stream has passed the look; until
then progress keeps the labels that it has, so that a start finds the same.

Not noticed: a name that was given to another label while the transaction that had used it stayed open, where a look
found each of the two labels in its time; labels within a range; and what older rows have in a column that was added.
"""

from collections.abc import Callable, Iterable, Mapping

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.copying.visibility import widen
from walbridge.producer.encoding.label_texts import FirstUse, Texts
from walbridge.producer.guards.doubts.columns.altered_types import new_label_facts, type_of
from walbridge.producer.guards.doubts.rewrites import from_text, with_labels
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import TableStorage
from walbridge.producer.postgres.storage.enum_labels import EnumLabel, enum_labels
from walbridge.producer.relations.session_writers import SessionWriters
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.position import Lsn

Labels = Mapping[bytes, EnumLabel]
"""The labels of one enum, by name."""


class NewLabels:
    """Looks up the new label names of one session.

    Args:
        writers: the writers that encode rows.
        insert_lsn: asks the server for its WAL insert position.
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
        """By table: facts of labels that the last look found, and that progress does not remember."""
        self._until: dict[int, Lsn] = {}
        """By table: a WAL position after the look that found them; kept until the stream has passed it."""

    def compare(self, known: Mapping[int, TableStorage], found: Mapping[int, TableStorage]) -> set[int]:
        """Note new labels of these tables. Returns the tables whose state must not be remembered yet."""
        facts = {each: new_label_facts(known[each], now) for each, now in found.items()}
        noted = [each for each, new in facts.items() if new - self._noted.get(each, frozenset())]
        self._noted |= facts
        if noted:
            self._until |= dict.fromkeys(noted, self._insert_lsn())
        return self._until.keys() & found.keys()

    def pass_to(self, end: Lsn) -> None:
        """The stream has brought all transactions that ended before this position."""
        self._until = {each: until for each, until in self._until.items() if end < until}

    def look_up(self) -> set[int]:
        """Look up the label of each name that came since the last call, and remember it. Returns the tables with a name
        that no label has, or that another label may have had.

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
        """The facts to remember of the names in the table's rows; None where one of them is not certain."""
        # Types that the table does not use any more, or of which earlier code remembered nothing, are left out. A type
        # that is new to the table is compared with its column (``columns/altered_types.py``).
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
        self, relation_id: int, known: TableStorage, label: EnumLabel, labels: Iterable[EnumLabel], use: FirstUse | None
    ) -> bool:
        """Whether the name was certainly this label's when it was used."""
        if label.fact in known.labels or self._was_found_before(relation_id, label, use):
            return True
        others = [each for each in labels if each is not label and each.fact not in known.labels]
        if not others:
            return True
        is_later = use is not None and widen(use.xid, label.xmax) > label.xid
        return is_later and all(each.xid != label.xid for each in others)

    def _was_found_before(self, relation_id: int, label: EnumLabel, use: FirstUse | None) -> bool:
        """Whether a look found the label under this name before the transaction committed."""
        if label.fact not in self._noted.get(relation_id, ()):
            return False
        until = self._until.get(relation_id)
        return until is None or (use is not None and use.commit_lsn >= until)
