"""Relation versions: what makes another one, and ids that survive a restart."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.producer.relations.announcements import INT4, TEXT, TOPIC, facts, versions
from tests.schemas.strategies import ENUM_OID, USER_TYPES, column, numeric_typmod, table, tables
from walbridge.producer.pgoutput.messages import Relation, RelationColumn
from walbridge.producer.postgres.facts import PublishedTable
from walbridge.producer.relations.relation_cache import DataTopic, RelationCache
from walbridge.producer.relations.table_description import announced, describe
from walbridge.schemas.control.metadata_record import RelationRecord, TypeRecord, decode_metadata, encode_metadata
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.pg_types import TypeFacts
from walbridge.schemas.table_schema import TableSchema


def test_first_copy_announces_what_the_stream_would_send() -> None:
    published = PublishedTable(16_384, "public", "orders", "d", ("a", "c"), None, False)

    assert announced(published, facts("d", True, False, False)) == Relation(
        16_384, "public", "orders", "d", (RelationColumn(True, "a", INT4, -1), RelationColumn(False, "c", INT4, -1))
    )


def read_back(*records: RelationRecord | TypeRecord) -> RelationCache:
    """A later start: what the metadata topic holds is all it knows."""
    return RelationCache("p", [decode_metadata(encode_metadata(record)) for record in records])


ORDERS = table(column("id", INT4, is_key=True), column("price", 1700, numeric_typmod(10, 2)))


@settings(max_examples=examples(40))
@given(tables())
def test_repeated_relation_keeps_its_id_also_after_a_restart(of: TableSchema) -> None:
    (record,) = versions(of)
    later = read_back(record)

    found = later.version_of(of, TOPIC)

    assert found == record
    assert later.is_known(found)


CHANGES = {
    "precision": table(ORDERS.columns[0], column("price", 1700, numeric_typmod(12, 2))),
    "scale": table(ORDERS.columns[0], column("price", 1700, numeric_typmod(10, 3))),
    "nullability": table(ORDERS.columns[0], replace(ORDERS.columns[1], nullable=True)),
    "value of older rows": table(ORDERS.columns[0], replace(ORDERS.columns[1], missing_value="1.00")),
    "attnum": table(ORDERS.columns[0], replace(ORDERS.columns[1], attnum=7)),
    "replica identity": replace(ORDERS, replica_identity="f"),
    "key": table(*(replace(each, is_key=True) for each in ORDERS.columns)),
    "name of a column": table(ORDERS.columns[0], replace(ORDERS.columns[1], name="cost")),
    "type": table(ORDERS.columns[0], column("price", 701)),
    "column": table(*ORDERS.columns, column("note", TEXT)),
    "order": table(*reversed(ORDERS.columns)),
}


@pytest.mark.parametrize("changed", CHANGES.values(), ids=CHANGES)
def test_any_difference_makes_another_version_with_an_id_of_its_own(changed: TableSchema) -> None:
    """The canonical form drops precision, scale and properties: one id must still mean one schema."""
    first, second = versions(ORDERS, changed)

    assert first.schema_id != second.schema_id
    assert first.key != second.key
    assert read_back(first, second).version_of(ORDERS, TOPIC) == first
    assert read_back(second, first).version_of(changed, TOPIC) == second


def test_two_tables_that_had_one_name_have_an_id_each_for_their_schemas() -> None:
    """I2: a table that was dropped and made again has other digits, which the canonical form does not tell."""
    first, second = versions(ORDERS, replace(CHANGES["precision"], relation_id=16_999))

    assert first.schema_id != second.schema_id
    assert read_back(first, second).version_of(second.table, TOPIC) == second


def test_two_keys_that_differ_in_digits_alone_have_an_id_each() -> None:
    """I3, I2"""
    first, second = versions(*KEYED)

    assert first.key_schema_id != second.key_schema_id


def test_newest_record_of_a_relation_is_the_last_one_and_its_type_the_last_one_recorded() -> None:
    records = versions(ORDERS, CHANGES["column"], CHANGES["precision"])

    assert read_back(*records).newest_of(ORDERS.relation_id) == records[-1]


def test_key_schema_that_is_shared_by_two_versions_has_one_id() -> None:
    """I3: a wider row must not move its key to another partition."""
    first, second = versions(ORDERS, CHANGES["column"])

    assert first.key_schema_id == second.key_schema_id


def test_another_partition_count_makes_another_record() -> None:
    first, second = versions(ORDERS, ORDERS, topics=[TOPIC, DataTopic(TOPIC.name, 8)])

    assert first.key != second.key


def test_another_value_under_a_known_key_is_refused() -> None:
    (record,) = versions(ORDERS)
    cache = read_back(record)

    with pytest.raises(OperatorError, match="two different records"):
        cache.remember(replace(record, topic="elsewhere"))


MOOD = TypeFacts(ENUM_OID, "public", "mood", "e", ("sad", "ok"))


def test_type_gets_a_new_version_when_it_changes_and_none_else() -> None:
    happy = replace(MOOD, enum_labels=("sad", "ok", "happy"))
    cache = RelationCache("p")
    (first,) = cache.type_records({ENUM_OID: MOOD})
    cache.remember(first)
    again = cache.type_records({ENUM_OID: MOOD})
    (second,) = cache.type_records({ENUM_OID: happy})

    assert (first.version, again, second.version) == (1, [], 2)
    assert read_back(second, first).type_records({ENUM_OID: happy}) == []
    assert read_back(first, second).type_records({ENUM_OID: MOOD})[0].version == 3


@pytest.mark.parametrize(
    "types", [{}, {ENUM_OID: replace(USER_TYPES[ENUM_OID], name="feeling")}], ids=["dropped", "renamed"]
)
def test_type_that_is_gone_or_called_otherwise_makes_no_other_version(types: dict[int, TypeFacts]) -> None:
    """I7: the lake refuses a change of type, and this is none."""
    told = Relation(16_384, "public", "orders", "d", (RelationColumn(True, "m", ENUM_OID, -1),))
    cache = RelationCache("p")
    first = cache.version_of(describe(told, None, USER_TYPES), TOPIC)
    cache.remember(first)

    again = describe(told, None, types, cache.versions_of(16_384))

    assert cache.version_of(again, TOPIC) == first
    assert again.columns[0].column_type == first.table.columns[0].column_type


def test_a_partitioned_table_is_told_as_one_and_stays_it_when_the_catalogue_knows_it_no_more() -> None:
    """Readers do not rely on what they hold of it: its rows come and go with its partitions."""
    columns = (RelationColumn(True, "a", INT4, -1), RelationColumn(False, "b", INT4, -1))
    relation = Relation(16_384, "public", "orders", "d", columns)
    known = facts("d", True, False)

    assert not describe(relation, known, {}).is_root
    root = describe(relation, replace(known, is_partitioned=True), {})
    assert root.root_relation_id == relation.relation_id
    (record,) = versions(root)
    (read,) = read_back(record).versions_of(relation.relation_id)
    assert describe(relation, None, {}, [read]).is_root


def test_a_partitioned_table_that_was_recorded_without_saying_so_gets_another_version() -> None:
    """Of earlier code: its schema is the same, and must not be known by the same id."""
    plain = table(column("id", INT4, is_key=True))
    (record,) = versions(plain)

    root = read_back(record).version_of(replace(plain, root_relation_id=plain.relation_id), TOPIC)

    assert root.schema_id != record.schema_id
    assert root.revision == record.revision + 1


@pytest.mark.parametrize("is_first_registered", [False, True])
def test_version_of_a_registry_keeps_the_form_that_it_was_recorded_in(is_first_registered: bool) -> None:
    """Also the one of earlier code, of which the topic is full: neither schema nor keys become others."""
    narrow, wider = KEYED_AND_WIDE
    (first,) = versions(narrow)
    cache = read_back(first)
    second = cache.version_of(wider, TOPIC, is_registered=is_first_registered)

    found = read_back(first, second).version_of(wider, TOPIC, is_registered=True)

    assert found == second
    assert second.revision == 1
    kinds = [json.loads(text or "")["fields"][-1]["type"] for text in (second.value_schema, second.key_schema)]
    assert ["null" not in kinds, *(kind != "null" for kind in kinds)] == [is_first_registered] * 3


@pytest.mark.parametrize("is_json", [False, True])
def test_topic_that_a_registry_is_to_know_takes_no_form_of_a_topic_before_it(is_json: bool) -> None:
    """Converters of Kafka Connect refuse a field of type null: keys too get the other form, with the topic."""
    cache, before = RelationCache("p"), KEYED_AND_WIDE
    for of in before:
        cache.remember(cache.version_of(of, TOPIC, is_json=is_json))
    later = read_back(*cache.records())

    for number in (2, 3):  # a second topic after the first one keeps what that has
        topic = DataTopic(f"{TOPIC.name}_{number}", TOPIC.partition_count)
        for of in reversed(before):
            found = later.version_of(of, topic, is_registered=True)
            assert not {"null"} & {str(each["type"]) for each in json.loads(found.value_schema)["fields"]}
            assert not {"null"} & {str(each["type"]) for each in json.loads(found.key_schema or "")["fields"]}
            assert found.schema_id not in {each.schema_id for each in later.records()}
            later.remember(replace(found, value_registry_id=1, key_registry_id=2))
            assert later.version_of(of, topic, is_registered=True).key == found.key


def test_key_that_a_registry_knows_stays_in_the_next_topic_that_needs_none() -> None:
    """I3, I2: its form says nothing that another framing could not say."""
    cache = RelationCache("p")
    for of in KEYED_AND_WIDE:
        record = cache.version_of(of, TOPIC, is_registered=True)
        cache.remember(replace(record, value_registry_id=1, key_registry_id=2))

    found = cache.version_of(of, DataTopic(f"{TOPIC.name}_2", TOPIC.partition_count))

    assert found.key_schema_id == record.key_schema_id
    assert found.schema_id != record.schema_id


def test_records_of_another_cluster_keep_their_ids_and_are_of_no_table() -> None:
    """I2: what is announced there is written, also where it reads as before; later starts know it from there on."""
    (record,) = versions(ORDERS)
    other = replace(ORDERS, columns=(ORDERS.columns[0], replace(ORDERS.columns[1], attnum=7)))
    cache = read_back(record)
    cache.begin_at(12)

    assert (cache.newest_of(ORDERS.relation_id), cache.versions_of(ORDERS.relation_id)) == (None, [])
    assert cache.named("public.orders") is None
    assert cache.version_of(other, TOPIC).schema_id != record.schema_id, "an id means one schema"
    same = cache.version_of(ORDERS, TOPIC)
    assert same == record
    assert not cache.is_known(same)
    cache.remember(same)
    assert cache.is_known(same)
    assert (cache.newest_of(ORDERS.relation_id), cache.versions_of(ORDERS.relation_id)) == (record, [record])
    cache.begin_at(12)
    assert cache.newest_of(ORDERS.relation_id) == record


KEYED = [table(column("id", 1700, numeric_typmod(digits, 2), is_key=True)) for digits in (10, 12)]
KEYED_AND_WIDE = [replace(each, columns=(*each.columns, column("note", TEXT))) for each in KEYED]
POOL = [ORDERS, *CHANGES.values(), *KEYED]
TABLES = st.builds(
    lambda of, relation_id, name: replace(of, relation_id=relation_id, name=name),
    st.sampled_from(POOL),
    st.sampled_from([16_384, 16_999]),
    st.sampled_from(["orders", "items"]),
)


@settings(max_examples=examples(60))
@given(st.lists(TABLES, min_size=1, max_size=8), st.booleans())
def test_an_id_means_one_schema_whatever_tables_come_and_a_restart_finds_the_same(
    announced_tables: list[TableSchema], is_registered: bool
) -> None:
    """I2: keys and values; of two relations an id may be only where a reader finds no difference between them."""
    cache, written = RelationCache("p"), []
    for of in announced_tables:
        written.append(cache.version_of(of, TOPIC, is_registered=is_registered))
        cache.remember(written[-1])

    values = {(each.schema_id, each.value_schema) for each in written}
    keys = {(each.key_schema_id, each.key_schema) for each in written}
    assert len({an_id for an_id, _ in values | keys}) == len(values | keys)
    for one in written:
        same = [each for each in written if each.schema_id == one.schema_id]
        relation_id = one.table.relation_id
        assert all(replace(each, table=replace(each.table, relation_id=relation_id)) == one for each in same)
    later = read_back(*written)
    assert [later.version_of(of, TOPIC, is_registered=is_registered) for of in announced_tables] == written


def test_version_that_comes_back_is_written_again_and_stays_one_version() -> None:
    """The last record of a relation says what it is called: a reader would else take it for renamed for ever."""
    first, renamed = versions(ORDERS, replace(ORDERS, name="moved"))
    cache = read_back(first, renamed)

    assert cache.version_of(ORDERS, TOPIC) == first
    assert not cache.is_known(first)
    cache.remember(first)
    assert cache.is_known(first)
    assert (cache.named("public.orders"), cache.named("public.moved")) == (first, None)
    assert cache.versions_of(ORDERS.relation_id) == [first, renamed]


CODED = table(column("code", 1043, 24, is_key=True, attnum=1), column("note", TEXT, attnum=2))
LONGER = table(column("name", 1043, 64, is_key=True, attnum=1), CODED.columns[1])
OTHER_KEY = table(replace(CODED.columns[0], is_key=False), replace(CODED.columns[1], is_key=True))
NEXT_TOPIC = DataTopic(f"{TOPIC.name}_2", TOPIC.partition_count)


def test_rows_stay_under_their_keys_when_columns_of_the_key_are_renamed_or_made_longer() -> None:
    """I3: also after a restart, and under another name of the table."""
    first, second = versions(CODED, LONGER)
    cache = read_back(first, second)

    third = cache.version_of(replace(LONGER, name="moved"), TOPIC)

    assert {first.key_schema, second.key_schema, third.key_schema} == {first.key_schema}
    assert {first.key_schema_id, second.key_schema_id, third.key_schema_id} == {first.key_schema_id}
    assert len({first.schema_id, second.schema_id, third.schema_id}) == 3
    assert not cache.has_other_key(TOPIC.name, CODED)


def test_another_key_is_none_for_the_topic_and_the_next_topic_begins_with_the_names_of_now() -> None:
    """I3: one topic, one key schema."""
    cache = read_back(*versions(CODED, LONGER))

    assert cache.has_other_key(TOPIC.name, OTHER_KEY)
    assert not cache.has_other_key(NEXT_TOPIC.name, OTHER_KEY)
    assert not cache.has_other_key(TOPIC.name, table(*(replace(each, is_key=False) for each in CODED.columns)))
    begun = cache.version_of(LONGER, NEXT_TOPIC)
    assert [each["pg.name"] for each in json.loads(begun.key_schema or "")["fields"]] == ["name"]


def test_topic_that_holds_several_key_schemas_goes_on_with_the_newest_one() -> None:
    """Of earlier code, which gave keys the names that columns had by then; also where one of these is gone again."""
    (first,) = versions(CODED)
    (second,) = versions(LONGER)
    assert first.key_schema != second.key_schema

    for newest in (first, second):
        cache = read_back(first, second)
        cache.remember(newest)
        for of in (CODED, LONGER, replace(LONGER, name="moved")):
            assert cache.version_of(of, TOPIC).key_schema == newest.key_schema


def test_table_that_was_made_again_goes_on_with_the_keys_of_its_topic_if_they_are_called_alike() -> None:
    """Its columns' numbers are others. So are those of another cluster, where a relation's id means another table."""
    (first,) = versions(CODED)
    of_new = replace(CODED, columns=tuple(replace(each, attnum=number) for number, each in enumerate(CODED.columns, 5)))
    other_cluster = read_back(first)
    other_cluster.begin_at(12)

    for cache, relation_id in ((read_back(first), 16_999), (other_cluster, first.table.relation_id)):
        now = replace(of_new, relation_id=relation_id)
        assert not cache.has_other_key(TOPIC.name, now)
        assert cache.version_of(now, TOPIC).key_schema == first.key_schema
        assert cache.has_other_key(TOPIC.name, replace(LONGER, relation_id=relation_id))


def test_key_stays_where_the_catalogue_has_forgotten_the_numbers_of_its_columns() -> None:
    """I3: of a table that was dropped before its changes were read."""
    numbered = table(replace(ORDERS.columns[0], attnum=1), *ORDERS.columns[1:])
    cache = read_back(*versions(numbered))

    unknown = cache.version_of(CHANGES["column"], TOPIC)
    other = cache.version_of(table(replace(ORDERS.columns[0], attnum=2), *ORDERS.columns[1:]), TOPIC)

    assert unknown.key_schema_id == cache.records()[0].key_schema_id
    assert other.key_schema_id != unknown.key_schema_id
