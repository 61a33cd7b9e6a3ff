"""The tables of a session: which are followed, what is written down first, what may not go on."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.producer.kept import CONNECTION, INT4, ITEMS, ORDERS, TEXT, XID, Kept, catalogue, relation
from walbridge.producer.pgoutput.messages import RelationColumn
from walbridge.producer.postgres.facts import ColumnFacts, PublishedTable, TableFacts
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Postgres, Settings, Topics

MORE = RelationColumn(False, "more", INT4, -1)


def received(*relation_ids: int, into: Kept | None = None) -> Kept:
    """A session that these copied tables were announced to."""
    kept = into or Kept()
    with catalogue():
        for relation_id in relation_ids:
            kept.tables.receive(relation(relation_id), relation_ids, XID)
    return kept


def restarted(kept: Kept) -> Kept:
    """A later process: what the metadata topic holds, and the topics that there are."""
    later = Kept(known=list(kept.metadata.records))
    later.admin.counts = kept.admin.counts
    return later


def test_schema_is_in_the_metadata_topic_before_anything_is_written_with_it() -> None:
    """I2"""
    kept = received(ORDERS)

    assert kept.happened == ["metadata", "expect public.orders"]
    assert kept.metadata.records == [kept.tables.writer(ORDERS).relation]


def test_relation_that_is_repeated_writes_nothing_and_needs_no_barrier() -> None:
    """ANALYZE repeats it too."""
    kept = received(ORDERS)
    kept.tables.take_shape_barrier(ORDERS)
    received(ORDERS, into=kept)

    assert len(kept.metadata.records) == 1
    assert not kept.tables.take_shape_barrier(ORDERS)


def test_version_that_is_known_from_an_earlier_process_is_not_written_again() -> None:
    later = received(ORDERS, into=restarted(received(ORDERS)))

    assert later.metadata.records == []
    assert later.tables.writer(ORDERS).relation == later.cache.newest_of(ORDERS)


def test_first_event_of_each_version_in_a_session_gets_one_barrier() -> None:
    kept = received(ORDERS)
    asked = [kept.tables.take_shape_barrier(ORDERS) for _ in range(2)]
    with catalogue():
        kept.tables.receive(relation(ORDERS, MORE), {ORDERS}, XID)
    asked += [kept.tables.take_shape_barrier(ORDERS) for _ in range(2)]

    assert asked == [True, False, True, False]


def test_new_version_is_written_with_from_its_relation_on() -> None:
    kept = received(ORDERS)
    with catalogue():
        kept.tables.receive(relation(ORDERS, MORE), {ORDERS}, XID)

    assert [column.name for column in kept.tables.writer(ORDERS).relation.table.columns] == ["id", "note", "more"]


def test_change_of_a_table_without_its_copy_is_refused_when_it_comes_and_not_before() -> None:
    """I7: the Relation of a partition comes too, where only its root is published."""
    kept = Kept()
    with catalogue():
        kept.tables.receive(relation(ITEMS), {ORDERS}, XID)

    assert (kept.happened, kept.tables.take_shape_barrier(ITEMS)) == ([], False)
    with pytest.raises(OperatorError, match="after the copy"):
        kept.tables.writer(ITEMS)


def test_change_of_a_relation_that_was_not_announced_is_refused() -> None:
    with pytest.raises(OperatorError, match="did not announce"):
        Kept().tables.writer(ORDERS)


def test_new_session_knows_no_table_until_it_is_announced_again() -> None:
    """What was announced last may have been altered since."""
    kept = received(ORDERS)
    with catalogue():
        kept.tables.receive(relation(ITEMS), {ORDERS}, XID)
    kept.tables.forget_session(CONNECTION)

    assert not kept.tables.take_shape_barrier(ORDERS)
    for relation_id in (ORDERS, ITEMS):
        with pytest.raises(OperatorError, match="did not announce"):
            kept.tables.writer(relation_id)


def test_catalogue_is_asked_after_those_who_alter_the_table_are_through() -> None:
    """The WAL tells of an ALTER before the catalogue shows it."""
    asked: list[str] = []
    facts = TableFacts("d", (ColumnFacts("id", INT4, -1, 1, False, True, True, None),), 1, "public", "orders")

    def told(what: str, value: object) -> object:
        asked.append(what)
        return value

    with catalogue(wait_for_alterations=lambda *_: told("waited", None), table_facts=lambda *_: told("facts", facts)):
        Kept().tables.receive(relation(), {ORDERS}, XID)

    assert asked == ["waited", "facts"]


def test_table_that_was_renamed_is_refused_before_anything_is_written_of_it() -> None:
    """I7: its rows would go on in another topic."""
    later = restarted(received(ORDERS))
    with catalogue({ORDERS: TableFacts("d", (), 0, "public", "archive")}), pytest.raises(OperatorError, match="is now"):
        later.tables.receive(relation(ORDERS, name="archive"), {ORDERS}, XID)

    assert later.metadata.records == []


def test_table_that_is_renamed_within_a_session_is_refused() -> None:
    """I7: also where it had the other name in an earlier one."""
    kept = received(ORDERS)
    with catalogue({ORDERS: TableFacts("d", (), 0, "public", "archive")}), pytest.raises(OperatorError, match="is now"):
        kept.tables.receive(relation(ORDERS, name="archive"), {ORDERS}, XID)


def test_table_that_is_renamed_to_a_name_that_it_had_long_ago_is_refused_within_a_session() -> None:
    """I7: its rows would go on in the topic of then."""
    then = Kept()
    with catalogue():
        then.tables.receive(relation(ORDERS, name="archive"), {ORDERS}, XID)
    kept = received(ORDERS, into=Kept(known=[*then.metadata.records, *received(ORDERS).metadata.records]))

    with catalogue(), pytest.raises(OperatorError, match=r"table public\.orders is now called public\.archive"):
        kept.tables.receive(relation(ORDERS, name="archive"), {ORDERS}, XID)


def test_topic_that_grew_since_its_rows_were_spread_is_refused() -> None:
    """I3"""
    later = restarted(received(ORDERS))
    later.admin.counts["p.public.orders"] = 5
    with pytest.raises(OperatorError, match="5 partitions"):
        received(ORDERS, into=later)
    with pytest.raises(OperatorError, match="5 partitions"):
        later.tables.refuse_other_settings({ORDERS})


def test_table_that_lost_its_key_over_several_partitions_is_refused() -> None:
    """I3: rows without a key have no order there."""
    kept = Kept()
    kept.admin.counts["p.public.orders"] = 4
    later = restarted(received(ORDERS, into=kept))

    with catalogue(), pytest.raises(OperatorError, match="has no key any more"):
        later.tables.receive(relation(identity="n"), {ORDERS}, XID)


def test_table_that_lost_its_key_on_one_partition_goes_on() -> None:
    later = restarted(received(ORDERS))
    with catalogue():
        later.tables.receive(relation(identity="n"), {ORDERS}, XID)

    assert not later.tables.writer(ORDERS).has_key


def published(relation_id: int, name: str) -> PublishedTable:
    return PublishedTable(relation_id, "public", name, "d", ("id", "note"), None, False)


def facts_of_a_copy() -> TableFacts:
    columns = (
        ColumnFacts("id", INT4, -1, 1, False, True, True, None),
        ColumnFacts("note", TEXT, -1, 2, True, False, False, None),
    )
    return TableFacts("d", columns, 2)


def test_copy_needs_no_shape_barriers_since_it_begins_with_its_own() -> None:
    kept = Kept()
    with catalogue(dict.fromkeys((ORDERS, ITEMS), facts_of_a_copy())):
        writers = kept.tables.prepare_copy([published(ORDERS, "orders"), published(ITEMS, "items")], CONNECTION)

    assert [writer.topic for writer in writers] == ["p.public.orders", "p.public.items"]
    assert [kept.tables.take_shape_barrier(each) for each in (ORDERS, ITEMS)] == [False, False]
    assert len(kept.metadata.records) == 2


def test_two_tables_that_want_one_topic_are_refused() -> None:
    """I7: their rows would be taken for those of one table."""
    twice = [published(ORDERS, "orders"), published(ITEMS, "orders")]
    with pytest.raises(OperatorError, match="two tables have the topic"):
        Kept().tables.refuse_unfit(twice, CONNECTION)


def test_table_that_wants_the_topic_of_logical_messages_is_refused() -> None:
    """I7"""
    topics = Topics(names={"public.orders": "p.messages"})
    for messages in (False, True):
        kept = Kept(Settings(name="p", postgres=Postgres(messages=messages), topics=topics))
        with pytest.raises(OperatorError, match="two tables have the topic") if messages else nullcontext():
            kept.tables.refuse_unfit([published(ORDERS, "orders")], CONNECTION)


def test_table_that_is_dropped_before_its_copy_is_refused() -> None:
    with catalogue(), pytest.raises(OperatorError, match="dropped meanwhile"):
        Kept().tables.prepare_copy([published(ORDERS, "orders")], CONNECTION)
