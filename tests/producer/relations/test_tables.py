"""The tables of a session: which are followed, what is written down first, what may not go on."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.producer.kept import CONNECTION, INT4, ITEMS, ORDERS, TEXT, XID, Kept, catalogue, relation
from walbridge.producer.errors.tables import UnfitTable
from walbridge.producer.pgoutput.messages import RelationColumn
from walbridge.producer.postgres.facts import ColumnFacts, PublishedTable, TableFacts
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Postgres, Topics

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
    assert kept.metadata.records == [kept.tables.writers.of(ORDERS).relation]


def test_relation_that_is_repeated_writes_nothing_and_needs_no_barrier() -> None:
    """ANALYZE repeats it too."""
    kept = received(ORDERS)
    kept.tables.writers.take_shape_barrier(ORDERS)
    received(ORDERS, into=kept)

    assert len(kept.metadata.records) == 1
    assert not kept.tables.writers.take_shape_barrier(ORDERS)


def test_version_that_is_known_from_an_earlier_process_is_not_written_again() -> None:
    later = received(ORDERS, into=restarted(received(ORDERS)))

    assert later.metadata.records == []
    assert later.tables.writers.of(ORDERS).relation == later.cache.newest_of(ORDERS)


def test_first_event_of_each_version_in_a_session_gets_one_barrier() -> None:
    kept = received(ORDERS)
    asked = [kept.tables.writers.take_shape_barrier(ORDERS) for _ in range(2)]
    with catalogue():
        kept.tables.receive(relation(ORDERS, MORE), {ORDERS}, XID)
    asked += [kept.tables.writers.take_shape_barrier(ORDERS) for _ in range(2)]

    assert asked == [True, False, True, False]


def test_new_version_is_written_with_from_its_relation_on() -> None:
    kept = received(ORDERS)
    with catalogue():
        kept.tables.receive(relation(ORDERS, MORE), {ORDERS}, XID)

    assert [column.name for column in kept.tables.writers.of(ORDERS).relation.table.columns] == ["id", "note", "more"]


def test_change_of_a_table_without_its_copy_is_refused_when_it_comes_and_not_before() -> None:
    """I7: the Relation of a partition comes too, where only its root is published."""
    kept = Kept()
    with catalogue():
        kept.tables.receive(relation(ITEMS), {ORDERS}, XID)

    assert (kept.happened, kept.tables.writers.take_shape_barrier(ITEMS)) == ([], False)
    with pytest.raises(OperatorError, match="after the copy"):
        kept.tables.writers.of(ITEMS)


def test_change_of_a_relation_that_was_not_announced_is_refused() -> None:
    with pytest.raises(OperatorError, match="did not announce"):
        Kept().tables.writers.of(ORDERS)


def test_new_session_knows_no_table_until_it_is_announced_again() -> None:
    """What was announced last may have been altered since."""
    kept = received(ORDERS)
    with catalogue():
        kept.tables.receive(relation(ITEMS), {ORDERS}, XID)
    kept.tables.forget_session(CONNECTION)

    assert not kept.tables.writers.take_shape_barrier(ORDERS)
    for relation_id in (ORDERS, ITEMS):
        with pytest.raises(OperatorError, match="did not announce"):
            kept.tables.writers.of(relation_id)


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


def renamed(kept: Kept, name: str) -> None:
    """The stream announces ``ORDERS`` under another name."""
    with catalogue():
        kept.tables.receive(relation(ORDERS, name=name), {ORDERS}, XID)


@pytest.mark.parametrize("is_later", [False, True])
def test_renamed_table_goes_on_in_its_topic_with_a_version_of_its_new_name(is_later: bool) -> None:
    kept = restarted(received(ORDERS)) if is_later else received(ORDERS)
    renamed(kept, "archive")

    written = kept.tables.writers.of(ORDERS).relation
    assert (written.table.qualified_name, written.topic) == ("public.archive", "p.public.orders")
    assert written == kept.metadata.records[-1]


def test_keys_of_a_renamed_table_keep_their_bytes() -> None:
    """I3: they choose the partition."""
    kept = received(ORDERS)
    before = kept.tables.writers.of(ORDERS).relation
    renamed(kept, "archive")
    renamed(kept, "third")
    after = kept.tables.writers.of(ORDERS).relation

    assert (after.key_schema_id, after.key_schema) == (before.key_schema_id, before.key_schema)
    assert after.schema_id != before.schema_id


def test_table_that_has_its_name_again_is_what_the_metadata_topic_says_last() -> None:
    """Nothing else tells a later process what it is called."""
    kept = received(ORDERS)
    renamed(kept, "archive")
    renamed(kept, "orders")

    assert restarted(kept).tables.versions.names([ORDERS]) == {ORDERS: "public.orders"}


def test_two_tables_that_change_names_keep_their_topics_and_have_schemas_of_their_own() -> None:
    """I2: a reader finds the version of an event by the schema's id alone."""
    kept = received(ORDERS, ITEMS)
    names = {ORDERS: "items", ITEMS: "orders"}
    with catalogue():
        for relation_id, name in names.items():
            kept.tables.receive(relation(relation_id, name=name), {ORDERS, ITEMS}, XID)

    writers = [kept.tables.writers.of(each).relation for each in (ORDERS, ITEMS)]
    assert [writer.topic for writer in writers] == ["p.public.orders", "p.public.items"]
    records = [record for record in kept.metadata.records if isinstance(record, RelationRecord)]
    assert len({record.schema_id for record in records}) == len(records) == 4


def test_name_that_the_catalogue_told_counts_when_the_relation_of_before_is_read_again() -> None:
    kept = received(ORDERS)
    with catalogue():
        writer = kept.tables.rename(ORDERS, ("public", "archive"))
    received(ORDERS, into=kept)

    assert writer is not None
    assert kept.tables.writers.of(ORDERS) is writer
    assert not kept.tables.writers.take_shape_barrier(ORDERS)


def test_table_whose_name_another_one_gets_is_told_once() -> None:
    kept = received(ORDERS, ITEMS)
    with catalogue():
        kept.tables.receive(relation(ITEMS, name="orders"), {ORDERS, ITEMS}, XID)

    assert [kept.tables.versions.take_displaced() for _ in range(2)] == [{ORDERS}, set()]


def test_relation_of_a_table_that_is_followed_makes_no_topic_anew() -> None:
    """I7: what was in it is gone, and no reader could tell."""
    later = restarted(received(ORDERS))
    del later.admin.counts["p.public.orders"]
    received(ORDERS, into=later)

    assert later.admin.counts == {}
    assert later.metadata.records == []


def test_copy_does_not_begin_in_a_topic_that_grew_since_its_rows_were_spread() -> None:
    """I3"""
    later = restarted(received(ORDERS))
    later.admin.counts["p.public.orders"] = 5
    with catalogue(), pytest.raises(OperatorError, match="5 partitions"):
        later.tables.announce(published(ORDERS, "orders"), facts_of_a_copy(), {}, "p.public.orders")


def test_table_that_lost_its_key_over_several_partitions_cannot_be_followed_so() -> None:
    """I3: rows without a key have no order there."""
    kept = Kept()
    kept.admin.counts["p.public.orders"] = 4
    later = restarted(received(ORDERS, into=kept))

    with catalogue(), pytest.raises(UnfitTable, match="has no key any more"):
        later.tables.receive(relation(identity="n"), {ORDERS}, XID)


def test_table_that_lost_its_key_on_one_partition_goes_on() -> None:
    later = restarted(received(ORDERS))
    with catalogue():
        later.tables.receive(relation(identity="n"), {ORDERS}, XID)

    assert not later.tables.writers.of(ORDERS).has_key


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
        writers, _ = kept.tables.prepare_copy([published(ORDERS, "orders"), published(ITEMS, "items")], CONNECTION)

    assert [writer.topic for writer in writers] == ["p.public.orders", "p.public.items"]
    assert [kept.tables.writers.take_shape_barrier(each) for each in (ORDERS, ITEMS)] == [False, False]
    assert len(kept.metadata.records) == 2


@pytest.mark.parametrize(
    ("names", "topic"), [({}, "p.public.orders"), ({"public.archive": "mine"}, "mine")], ids=["of its records", "set"]
)
def test_table_that_is_copied_again_keeps_its_topic_unless_settings_name_another(
    names: dict[str, str], topic: str
) -> None:
    kept = Kept(Settings(name="p", topics=Topics(names=names)))
    known = {ORDERS: TableProgress(ORDERS, "current", "p.public.orders")}
    with catalogue({ORDERS: facts_of_a_copy()}):
        (writer,), _ = kept.tables.prepare_copy([published(ORDERS, "archive")], CONNECTION, known)

    assert writer.topic == topic


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
