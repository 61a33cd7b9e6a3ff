"""New enum labels: whether a name that rows were sent with is still the name of the same label.

In: labels as progress remembers them and as a look finds them; the names of labels in encoded rows
(``encoding/label_texts.py``), before the cut that contains these rows. Out: tables with a name in their rows that no
label has now, or that another label may have had, so that a query of the source shows another name (I8).

Adding a label leaves the same trace in the catalogue as renaming one. If a label was added, used in rows and renamed,
all before a look, only its first name in a row shows that: the catalogue has no label of that name. A name that the
catalogue does have is remembered with the table from then on, in the progress of the row's cut, so that a later rename
shows (``columns/altered_types.py``). But that name may have belonged to another label before, also if a look has found
it since: a transaction may have used it and stayed open. What its rows show is the label that had the name when each of
them was written. That is the label that has the name now, if

- whoever wrote the label last had ended before all that the slot brings, or made the type with it;
- or the label was written last before the table had any column of its type, which is asked when a type is new to the
  table (``columns/altered_types.py``): whatever has the name in its rows came later, in any transaction;
- or the transaction's first change stands behind a look that found the label under this name;
- or each other label had another name by then, for one of these reasons;
- or its xid is higher than that of the transaction that wrote the label last, and that one had not written anything
  before. For a label is written under a lock on its type, once its name is free, and so was that xid taken.

In any other case the table is copied again. A copy's rows have the labels of its snapshot. What a look finds is
remembered once the stream has passed the look; until then progress keeps the labels that it has, so that a start finds
the same. What progress remembers when a session begins was so before what the session brings.

Not noticed: who takes an xid without writing anything, as ``nextval()`` does, and gives a free name to a label only
after that, where another transaction used the name in between, as another label's.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from functools import partial

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.copying.visibility import widen
from walbridge.producer.encoding.label_texts import Texts, Use
from walbridge.producer.guards.doubts.columns.altered_types import new_label_facts, new_types, type_of
from walbridge.producer.guards.doubts.label_dates import LabelDates
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
        dates: from where on labels have their names, as looks have shown.
        slot: that of the stream.
        insert_lsn: asks the server for its WAL insert position.
    """

    def __init__(
        self,
        connection: SqlConnection,
        tracker: ProgressTracker,
        writers: SessionWriters,
        dates: LabelDates,
        slot: str,
        insert_lsn: Callable[[], Lsn],
    ) -> None:
        self._connection, self._tracker, self._slot = connection, tracker, slot
        self._writers, self._dates, self._insert_lsn = writers, dates, insert_lsn
        self._noted: dict[int, frozenset[str]] = {}
        """By table: facts of labels that the last look found, and that progress does not remember."""
        self._until: dict[int, Lsn] = {}
        """By table: a WAL position after the look that found them; kept until the stream has passed it."""

    def compare(
        self, known: Mapping[int, TableStorage], found: Mapping[int, TableStorage], doubted: Set[int]
    ) -> set[int]:
        """Note new labels of these tables. Returns the tables whose state must not be remembered yet.

        Args:
            doubted: tables in doubt, as with a column of a type that may have been altered since that column came.
        """
        facts = {each: new_label_facts(known[each], now) for each, now in found.items()}
        noted = [each for each, new in facts.items() if new - self._noted.get(each, frozenset())]
        self._noted |= facts
        if noted:
            self._until |= dict.fromkeys(noted, self._insert_lsn())
        known_labels, labels = ({fact for each in of.values() for fact in each.labels} for of in (known, found))
        self._dates.see(labels, self._insert_lsn, known_labels, self._tracker.progress.done)
        self._note_new_types({each: known[each] for each in found.keys() - doubted}, found)
        return self._until.keys() & found.keys()

    def _note_new_types(self, known: Mapping[int, TableStorage], found: Mapping[int, TableStorage]) -> None:
        """These tables' columns came behind what is found of their types. It is remembered at once, also where other
        facts are not yet: a later look could not tell any more what was altered meanwhile."""
        tables, after = self._tracker.progress.tables, dict[int, TableProgress]()
        for relation_id, before in known.items():
            if types := new_types(before, found[relation_id]):
                facts = {each for each in found[relation_id].labels if type_of(each) in types}
                self._dates.note_older(relation_id, facts)
                after[relation_id] = with_labels(tables[relation_id], facts)
        if after:
            self._tracker.remember_tables(after)

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
        self._writers.label_texts.place_copied(self._insert_lsn)
        enums_used = {enum for enums in found.values() for enum in enums or ()}
        labels = enum_labels(self._connection, enums_used, self._slot)
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
            for text, uses in texts.items():
                label = of.get(text)
                if label is None:
                    return None
                others = [each for each in of.values() if each is not label]
                if not all(self._is_certain(relation_id, known, label, others, use) for use in uses):
                    return None
                facts |= {label.fact, label.writer_fact}
        return facts

    def _is_certain(
        self, relation_id: int, known: TableStorage, label: EnumLabel, others: Iterable[EnumLabel], use: Use | None
    ) -> bool:
        """Whether the name was certainly this label's, and none of the others', when it was used."""
        if use is None:
            return label.fact in known.labels or all(each.fact in known.labels for each in others)
        had_its_name = partial(self._dates.had_its_name, relation_id=relation_id, first_lsn=use.first_lsn)
        if had_its_name(label) or all(map(had_its_name, others)):
            return True
        return label.is_first and widen(use.xid, label.xmax) > label.xid
