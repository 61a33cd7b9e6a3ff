"""Which partitions and labels put a table in doubt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.producer.guards.test_source_watch import END, Watched
from tests.producer.kept import CONNECTION, INT4, ITEMS, ORDERS, SETTINGS, TEXT, XID, catalogue, relation
from walbridge.producer.guards.doubts.rewrites import as_text
from walbridge.producer.pgoutput.messages import Relation, RelationColumn
from walbridge.producer.postgres.facts import (
    AddedColumn,
    ColumnFacts,
    RowVersion,
    TableFacts,
    TableFile,
    TableStorage,
    UsedType,
)

ROOT = TableFile(ORDERS, 0, 0, 2)
FIRST = TableFile(20_001, 20_001, 0, 2, joined="700", was_created_as_partition=True)
SECOND = TableFile(20_002, 20_002, 0, 2, joined="705", was_created_as_partition=True)


def partitioned() -> Watched:
    """A session that knows one partition below one of its tables."""
    watched = Watched()
    watched.storages = {ORDERS: TableStorage((ROOT, FIRST), frozenset({"9-ab"}))}
    watched.open()
    assert not watched.watched.doubts
    return watched


def doubted(watched: Watched, *files: TableFile, labels: frozenset[str] = frozenset({"9-ab"})) -> bool:
    """Whether a look that finds these files doubts the table."""
    watched.storages = {ORDERS: TableStorage((ROOT, *files), labels)}
    watched.look()
    return ORDERS in watched.watched.doubts.take(END)


def test_partition_that_was_born_as_one_is_no_doubt_and_takes_no_rows_along_before_it_is_announced() -> None:
    """The server announces it before its first change; what is remembered says so in the next session, too."""
    watched = partitioned()
    assert not doubted(watched, FIRST, SECOND)
    assert f"{SECOND.relation_id}:{SECOND.relation_id}:0:2::705:u" in remembered(watched)
    assert not doubted(watched, FIRST)


def test_partition_takes_rows_along_once_it_was_announced() -> None:
    """I8: that is remembered with its first change, and it is not unused again in that session."""
    watched = partitioned()
    assert not doubted(watched, FIRST, SECOND)
    watched.watched.stream_facts.note_relation(SECOND.relation_id)
    assert ":u" not in remembered(watched)
    assert not doubted(watched, FIRST, SECOND)
    assert ":u" not in remembered(watched)
    assert doubted(watched, FIRST)


def test_unused_partition_that_is_emptied_is_no_doubt_unless_it_is_announced_afterwards() -> None:
    """I8: its rows may be of before, and gone."""
    emptied = replace(SECOND, file=20_010)
    watched = partitioned()
    assert not doubted(watched, FIRST, SECOND)
    assert not doubted(watched, FIRST, emptied)
    assert not doubted(watched, FIRST, replace(emptied, file=20_011))
    watched.watched.stream_facts.note_relation(SECOND.relation_id)
    assert watched.watched.doubts.take(END).keys() == {ORDERS}


def test_partition_is_unused_where_it_is_empty_when_its_root_is_copied() -> None:
    """But not in a session that heard of it, or of prepared transactions: they announce what may never be published."""
    for two_phase, announced, expected in ((False, (), ":u"), (True, (), ""), (False, (FIRST.relation_id,), "")):
        postgres = SETTINGS.postgres.model_copy(update={"two_phase": two_phase})
        watched = Watched(SETTINGS.model_copy(update={"postgres": postgres}))
        watched.storages = {ORDERS: TableStorage((ROOT, FIRST, SECOND))}
        watched.open()
        watched.empty = {FIRST.relation_id}
        for each in announced:
            watched.watched.stream_facts.note_relation(each)
        with watched.seen():
            table = watched.watched.stream_facts.with_unused_partitions(watched.tracker.progress.tables[ORDERS])
        assert table.storage == f"{ORDERS}:0:0:2:: 20001:20001:0:2::700{expected} 20002:20002:0:2::705"


def remembered(watched: Watched) -> str:
    return str(watched.tracker.progress.tables[ORDERS].storage)


@pytest.mark.parametrize(
    ("came", "expected"),
    [
        (replace(SECOND, was_created_as_partition=False), True),
        (replace(SECOND, file=20_009), True),
        (replace(SECOND, is_logged=False), True),
        (SECOND, False),
    ],
)
def test_partition_that_may_have_brought_rows_unsaid_is_a_doubt(came: TableFile, expected: bool) -> None:
    """I8: it was attached, or emptied since it was made, or its changes are never sent."""
    assert doubted(partitioned(), FIRST, came) is expected


def test_partition_that_was_attached_empty_is_no_doubt() -> None:
    watched = partitioned()
    watched.empty = {SECOND.relation_id}
    assert not doubted(watched, FIRST, replace(SECOND, was_created_as_partition=False))


def test_partitions_born_below_one_that_was_attached_are_looked_at_too() -> None:
    """I8: they were filled before it was."""
    watched = partitioned()
    watched.empty = {20_003}
    assert doubted(watched, FIRST, TableFile(20_003, 0, 0, 2, joined="709"), SECOND)


@pytest.mark.parametrize("left", [(), (replace(FIRST, joined="706"),)])
def test_partition_that_left_or_came_anew_is_a_doubt(left: tuple[TableFile, ...]) -> None:
    """I8: its rows went with it, and what came back may be others."""
    assert doubted(partitioned(), *left)


def test_partition_of_which_changes_came_and_which_is_none_now_is_a_doubt() -> None:
    """I8: it came and went between two looks, and its rows with it."""
    watched = partitioned()
    watched.watched.stream_facts.note_partition_change(FIRST.relation_id, ORDERS)
    assert watched.watched.stream_facts.partitions.knows_all_partitions_of(ORDERS)
    watched.watched.stream_facts.note_partition_change(SECOND.relation_id, ORDERS)
    assert not watched.watched.stream_facts.partitions.knows_all_partitions_of(ORDERS)
    assert doubted(watched, FIRST)
    assert watched.watched.stream_facts.partitions.knows_all_partitions_of(ORDERS)


def test_partition_that_its_roots_truncate_emptied_is_no_doubt_unless_rows_came_behind_it() -> None:
    """I8: a second TRUNCATE of the transaction would empty the same file."""
    emptied = replace(FIRST, file=20_010, written_by_xid=750)
    watched = partitioned()
    watched.watched.stream_facts.note_truncate([ORDERS, ITEMS], 750)
    watched.watched.stream_facts.note_change(ORDERS, 751)
    watched.watched.stream_facts.note_change(ITEMS, 750)
    assert not doubted(watched, emptied)
    watched.watched.stream_facts.note_change(ORDERS, 750)
    assert watched.watched.doubts.take(END).keys() == {ORDERS}
    assert doubted(watched, replace(emptied, file=20_011, written_by_xid=752))


def test_label_that_is_called_otherwise_is_a_doubt() -> None:
    assert not doubted(partitioned(), FIRST, labels=frozenset({"9-ab", "9-cd"}))
    assert doubted(partitioned(), FIRST, labels=frozenset({"9-cd"}))


@pytest.mark.parametrize(("fact", "expected"), [(RowVersion(750, 0), True), (RowVersion(740, 0), False)])
def test_type_that_was_altered_behind_its_new_column_is_a_doubt(fact: RowVersion, expected: bool) -> None:
    """I8: rows that came between read otherwise by now."""
    watched = partitioned()
    watched.used = [UsedType(ORDERS, 8, RowVersion(745, 0), (fact,))]
    assert doubted(watched, FIRST, labels=frozenset({"9-ab", "8-a"})) is expected


NOTE = AddedColumn(ORDERS, "note", TEXT, -1, 3, value=None)


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        (replace(NOTE, name="other"), False),
        (replace(NOTE, name="other", value="7"), False),
        (replace(NOTE, value="7"), True),
        (NOTE, True),
        (replace(NOTE, attnum=2), False),
        (replace(NOTE, type_oid=INT4), False),
    ],
)
def test_column_that_looks_as_one_that_went_is_a_doubt(added: AddedColumn, expected: bool) -> None:
    """I8: its name may have been that of another column, whose values came under it."""
    watched = Watched(announced=())
    facts = TableFacts("d", (_column("id", INT4, 1), _column("note", TEXT, 2)), 2)
    with catalogue({ORDERS: facts}):
        for relation_id in (ORDERS, ITEMS):
            watched.tables.receive(relation(relation_id), (ORDERS, ITEMS), XID)
    watched.storages = {ORDERS: TableStorage((TableFile(ORDERS, 7, 50, 2),))}
    watched.open()
    watched.added, watched.storages = [added], {ORDERS: TableStorage((TableFile(ORDERS, 7, 50, 3),))}
    watched.look()
    assert (ORDERS in watched.watched.doubts.take(END)) is expected


@pytest.mark.parametrize("is_told", [True, False])
def test_column_that_looks_as_one_that_went_before_is_no_doubt_where_that_was_told(is_told: bool) -> None:
    """A migration that was taken back and made again costs no copy. Another session may begin before it, I8."""
    watched = Watched(announced=(ITEMS,))
    with_note, without = (TableFacts("d", (_column("id", INT4, 1), _column("note", TEXT, 2))[:n], 2) for n in (2, 1))
    told = relation(ORDERS)
    for facts, now in ((with_note, told), (without, replace(told, columns=told.columns[:1]))):
        with catalogue({ORDERS: facts}):
            watched.tables.receive(now, (ORDERS, ITEMS), XID)
    if not is_told:
        watched.tables.forget_session(CONNECTION)
    watched.storages = {ORDERS: TableStorage((TableFile(ORDERS, 7, 50, 2),))}
    watched.open()
    watched.added, watched.storages = [NOTE], {ORDERS: TableStorage((TableFile(ORDERS, 7, 50, 3),))}
    watched.look()
    assert (ORDERS in watched.watched.doubts.take(END)) is not is_told


WIDER = Relation(ORDERS, "public", "orders", "d", tuple(RelationColumn(n == 1, f"c{n}", INT4, -1) for n in range(1, 4)))


def with_columns(watched: Watched, count: int, *, older: str | None = None) -> None:
    """The stream announces so many columns of ``orders``; the last of the catalogue's three got a value."""
    facts = [_column(f"c{n}", INT4, n) for n in range(1, 4)]
    facts[-1] = replace(facts[-1], missing_value=older)
    told = replace(WIDER, columns=WIDER.columns[:count])
    with catalogue({ORDERS: TableFacts("d", tuple(facts), 3)}):
        watched.tables.receive(told, (ORDERS, ITEMS), XID)


def test_column_with_a_value_is_told_before_its_files_are_remembered() -> None:
    """I8: what the next version tells of older rows, a rewrite takes from the catalogue; it must show until then."""
    watched = Watched(announced=(ITEMS,))
    with_columns(watched, 2)
    before, after = (TableStorage((TableFile(ORDERS, 7, 50, count),)) for count in (2, 3))
    watched.storages = {ORDERS: before}
    watched.open()
    watched.added = [AddedColumn(ORDERS, "c3", INT4, -1, 3, value="7")]
    watched.storages = {ORDERS: after}
    watched.look()
    doubts = watched.watched.doubts
    assert not doubts.take(END)
    assert watched.watched.storage.awaits_relation(ORDERS)
    assert watched.tracker.progress.tables[ORDERS].storage == as_text(before)

    with_columns(watched, 3, older="7")
    watched.look()
    assert not doubts.take(END)
    assert not watched.watched.storage.awaits_relation(ORDERS)
    assert watched.tracker.progress.tables[ORDERS].storage == as_text(after)


def test_column_that_was_told_without_its_value_is_a_doubt() -> None:
    """I8: older rows of the lake have null."""
    watched = Watched(announced=(ITEMS,))
    with_columns(watched, 2)
    watched.storages = {ORDERS: TableStorage((TableFile(ORDERS, 7, 50, 2),))}
    watched.open()
    with_columns(watched, 3, older=None)
    watched.added = [AddedColumn(ORDERS, "c3", INT4, -1, 3, value="7")]
    watched.storages = {ORDERS: TableStorage((TableFile(ORDERS, 7, 50, 3),))}
    watched.look()
    assert watched.watched.doubts.take(END).keys() == {ORDERS}


@pytest.mark.parametrize(
    ("values", "told", "expected"),
    [
        (("7", "7"), "7", False),
        ((None, None), None, False),
        (("7", "8"), None, True),
        (("7", "8"), "7", True),
        (("7", None), "7", True),
        (("7", "7"), None, True),
    ],
)
def test_value_of_partitions_older_rows_is_a_doubt_of_their_root_unless_it_tells_that_of_each(
    values: tuple[str | None, ...], told: str | None, expected: bool
) -> None:
    """I8: one value is given to all rows that are there."""
    watched = Watched(announced=(ITEMS,))
    with_columns(watched, 2)
    leaves = [TableFile(20_001 + at, 20_001 + at, 0, 4, joined="700", was_created_as_partition=True) for at in range(2)]

    def with_count(more: int) -> dict[int, TableStorage]:
        root = TableFile(ORDERS, 0, 0, 2 + more)
        return {ORDERS: TableStorage((root, *[replace(each, column_count=4 + more) for each in leaves]))}

    watched.storages = with_count(0)
    watched.open()
    # The partitions had other columns before they were attached: numbers differ.
    below = [
        AddedColumn(leaf.relation_id, "c3", INT4, -1, 5, value) for leaf, value in zip(leaves, values, strict=True)
    ]
    watched.added, watched.storages = [AddedColumn(ORDERS, "c3", INT4, -1, 3), *below], with_count(1)
    watched.look()
    doubts = watched.watched.doubts
    assert not doubts.take(END)
    assert watched.watched.storage.awaits_relation(ORDERS) is any(values)

    with_columns(watched, 3, older=told)
    watched.look()
    assert (ORDERS in doubts.take(END)) is expected
    assert not watched.watched.storage.awaits_relation(ORDERS)


def test_value_of_a_partitions_column_that_its_root_lacks_is_a_doubt() -> None:
    watched = partitioned()
    watched.added = [AddedColumn(FIRST.relation_id, "c3", INT4, -1, 3, value="7")]
    assert doubted(watched, replace(FIRST, column_count=FIRST.column_count + 1))


def _column(name: str, type_oid: int, attnum: int) -> ColumnFacts:
    is_key = attnum == 1
    return ColumnFacts(name, type_oid, -1, attnum, not is_key, is_key, is_key, None)


def test_publication_that_was_written_anew_is_a_doubt_once_it_is_known_who_wrote_it() -> None:
    """I7: of what earlier code remembers nobody can say that, so a first look only writes it down."""
    watched = partitioned()
    members = dict.fromkeys((ORDERS, ITEMS), "*@754")
    watched.look(members=members)
    assert not watched.watched.doubts
    assert {each: table.membership for each, table in watched.tracker.progress.tables.items()} == members
    watched.look(members=members | {ORDERS: "*@790"})
    (reason,) = watched.watched.doubts.take(END).values()
    assert "was altered since table public.orders was last looked at" in reason.what
    assert watched.tracker.progress.tables[ORDERS].membership == "*@754"
