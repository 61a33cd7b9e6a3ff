"""Relation versions: which columns make the key, and ids that survive a restart."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schemas.strategies import ENUM_OID, USER_TYPES, column, numeric_typmod, table, tables
from walbridge.producer.pgoutput.messages import Relation, RelationColumn
from walbridge.producer.postgres.facts import ColumnFacts, PublishedTable, TableFacts
from walbridge.producer.relations.column_matching import under_its_name
from walbridge.producer.relations.relation_cache import RelationCache, TopicPlace, announced, describe
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.metadata_record import RelationRecord, TypeRecord, decode_metadata, encode_metadata
from walbridge.schemas.pg_types import TypeFacts
from walbridge.schemas.table_schema import TableSchema

PLACE = TopicPlace("p.public.orders", 4)
INT4, TEXT = 23, 25


def relation(identity: str, *flags: bool) -> Relation:
    """Columns a, b, c … of int4, flagged or not."""
    columns = tuple(RelationColumn(flag, "abcdef"[i], INT4, -1) for i, flag in enumerate(flags))
    return Relation(16_384, "public", "orders", identity, columns)


def facts(identity: str, *primary: bool) -> TableFacts:
    """The same columns in the catalogue; ``primary``: in the primary key."""
    columns = tuple(
        ColumnFacts("abcdef"[i], INT4, -1, 10 + i, not flag, flag, flag, None) for i, flag in enumerate(primary)
    )
    return TableFacts(identity, columns)


def key_of(announcement: Relation, known: TableFacts | None) -> list[str]:
    return [each.name for each in describe(announcement, known, {}).key_columns]


@pytest.mark.parametrize("identity", ["d", "i"])
def test_key_is_what_the_stream_flags_where_old_rows_hold_no_more(identity: str) -> None:
    """The catalogue may have another primary key by now, or beside USING INDEX."""
    assert key_of(relation(identity, False, True, True), facts(identity, True, False, False)) == ["b", "c"]


@pytest.mark.parametrize("identity", ["f", "n"])
def test_key_is_the_primary_key_under_full_and_nothing(identity: str) -> None:
    flags = [identity == "f"] * 3

    assert key_of(relation(identity, *flags), facts(identity, True, False, False)) == ["a"]


@pytest.mark.parametrize("known", [None, facts("f", False, False)], ids=["unknown to the catalogue", "no primary key"])
def test_table_without_primary_key_has_no_key_under_full(known: TableFacts | None) -> None:
    assert key_of(relation("f", True, True), known) == []


def test_identity_without_flagged_columns_leaves_no_key() -> None:
    assert key_of(relation("d", False, False), facts("d", False, False)) == []


def test_primary_key_that_is_not_published_whole_is_no_key() -> None:
    """Half a key would make one row of several."""
    known = facts("f", True, True, False)
    announcement = replace(relation("f", True, True, True), columns=relation("f", True, True, True).columns[1:])

    assert key_of(announcement, known) == []


def test_catalogue_facts_are_taken_where_it_still_describes_the_column() -> None:
    """The catalogue says now, the stream says then: a column of another type is another column."""
    known = TableFacts(
        "d",
        (
            ColumnFacts("a", INT4, -1, 1, False, True, True, None),
            ColumnFacts("b", TEXT, -1, 2, False, False, False, "x"),
            ColumnFacts("d", INT4, -1, 4, False, False, False, None),
        ),
    )
    a, b, c = describe(relation("d", True, False, False), known, {}).columns

    assert (a.attnum, a.nullable, a.missing_value) == (1, False, None)
    assert (b.attnum, b.nullable, b.missing_value) == (None, None, None)
    assert (c.attnum, c.nullable, c.missing_value) == (None, None, None)


def test_value_of_older_rows_is_recorded_with_the_column_that_it_is_of() -> None:
    """I8: rows from before an ADD COLUMN with a default have it, and no event says so."""
    filled = ColumnFacts("b", INT4, -1, 2, False, False, False, "7")
    known = TableFacts("d", (ColumnFacts("a", INT4, -1, 1, False, True, True, None), filled), 2)

    a, b = describe(relation("d", True, False), known, {}).columns
    assert (a.missing_value, b.missing_value, b.nullable) == (None, "7", False)


def test_facts_of_a_column_of_the_same_name_with_another_number_are_not_taken() -> None:
    """I8: it was dropped and added again, with a default that rows from before do not have."""
    told = relation("d", True, False, False)
    first = TableFacts("d", tuple(replace(each, attnum=n) for n, each in enumerate(facts("d", *[True] * 3).columns)))
    again = ColumnFacts("b", INT4, -1, 9, False, False, False, "7")
    now = TableFacts("d", (first.columns[0], first.columns[2], again), 9)
    versions = recorded_of(told, first)

    _, b, _ = describe(told, now, {}, versions).columns
    assert (b.nullable, b.missing_value) == (None, None)


def recorded_of(told: Relation, known: TableFacts) -> list[RelationRecord]:
    """The version that a copy recorded."""
    cache = RelationCache("p")
    cache.remember(cache.version_of(describe(told, known, {}), PLACE))
    return cache.versions_of(told.relation_id)


def test_typmod_that_changed_meanwhile_makes_another_column() -> None:
    announcement = Relation(1, "s", "t", "d", (RelationColumn(False, "a", 1700, numeric_typmod(10, 2)),))
    known = TableFacts("d", (ColumnFacts("a", 1700, numeric_typmod(12, 2), 1, True, False, False, None),))

    (found,) = describe(announcement, known, {}).columns
    assert (found.attnum, found.column_type.avro["precision"]) == (None, 10)


def test_column_is_named_by_its_type_or_the_types_oid() -> None:
    columns = tuple(RelationColumn(False, name, oid, -1) for name, oid in (("a", INT4), ("b", ENUM_OID), ("c", 99_999)))

    described = describe(Relation(1, "s", "t", "d", columns), None, USER_TYPES)

    assert [each.type_name for each in described.columns] == ["int4", "mood", "oid 99999"]
    assert [each.column_type.is_text for each in described.columns] == [False, False, True]


def test_first_copy_announces_what_the_stream_would_send() -> None:
    published = PublishedTable(16_384, "public", "orders", "d", ("a", "c"), None, False)

    assert announced(published, facts("d", True, False, False)) == Relation(
        16_384, "public", "orders", "d", (RelationColumn(True, "a", INT4, -1), RelationColumn(False, "c", INT4, -1))
    )


def read_back(*records: RelationRecord | TypeRecord) -> RelationCache:
    """A later start: what the metadata topic holds is all it knows."""
    return RelationCache("p", [decode_metadata(encode_metadata(record)) for record in records])


def versions(*tables: TableSchema, places: Sequence[TopicPlace] = ()) -> list[RelationRecord]:
    cache = RelationCache("p")
    records = []
    for of, place in zip(tables, places or [PLACE] * len(tables), strict=True):
        records.append(cache.version_of(of, place))
        cache.remember(records[-1])
    return records


ORDERS = table(column("id", INT4, is_key=True), column("price", 1700, numeric_typmod(10, 2)))


@settings(max_examples=40)
@given(tables())
def test_repeated_relation_keeps_its_id_also_after_a_restart(of: TableSchema) -> None:
    (record,) = versions(of)
    later = read_back(record)

    found = later.version_of(of, PLACE)

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
    assert read_back(first, second).version_of(ORDERS, PLACE) == first
    assert read_back(second, first).version_of(changed, PLACE) == second


def test_two_tables_that_had_one_name_have_an_id_each_for_their_schemas() -> None:
    """I2: a table that was dropped and made again has other digits, which the canonical form does not tell."""
    first, second = versions(ORDERS, replace(CHANGES["precision"], relation_id=16_999))

    assert first.schema_id != second.schema_id
    assert read_back(first, second).version_of(second.table, PLACE) == second


def test_two_keys_that_differ_in_digits_alone_have_an_id_each() -> None:
    """I3, I2"""
    keyed = [table(column("id", 1700, numeric_typmod(digits, 2), is_key=True)) for digits in (10, 12)]
    first, second = versions(*keyed)

    assert first.key_schema_id != second.key_schema_id


def test_newest_record_of_a_relation_is_the_last_one_and_its_type_the_last_one_recorded() -> None:
    records = versions(ORDERS, CHANGES["column"], CHANGES["precision"])

    assert read_back(*records).newest_of(ORDERS.relation_id) == records[-1]


def test_key_schema_that_is_shared_by_two_versions_has_one_id() -> None:
    """I3: a wider row must not move its key to another partition."""
    first, second = versions(ORDERS, CHANGES["column"])

    assert first.key_schema_id == second.key_schema_id


def test_another_partition_count_makes_another_record() -> None:
    first, second = versions(ORDERS, ORDERS, places=[PLACE, TopicPlace(PLACE.topic, 8)])

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


def announcement(identity: str, *columns: str) -> Relation:
    """Columns of int4, or of text where a name ends so."""
    made = tuple(RelationColumn(identity == "f", name, TEXT if name.endswith("text") else INT4, -1) for name in columns)
    return Relation(16_384, "public", "orders", identity, made)


def catalogue(*columns: tuple[str, int], primary: Sequence[str] = (), last: int) -> TableFacts:
    """Name and attribute number of each column that is there now."""
    made = tuple(
        ColumnFacts(name, TEXT if name.endswith("text") else INT4, -1, number, True, name in primary, True, None)
        for name, number in columns
    )
    return TableFacts("f", made, last)


def recorded(*told: tuple[Relation, TableFacts | None], partitions: int = 1) -> list[RelationRecord]:
    """Versions, each announced while the catalogue knew this; the first by a copy."""
    cache = RelationCache("p")
    for relation_told, known in told:
        table_told = describe(relation_told, known, {}, cache.versions_of(16_384))
        cache.remember(cache.version_of(table_told, TopicPlace("p.public.orders", partitions)))
    return cache.versions_of(16_384)


def numbers_of(
    announced_now: Relation, known: TableFacts | None, versions: Sequence[RelationRecord]
) -> list[int | None]:
    return [column.attnum for column in describe(announced_now, known, {}, versions).columns]


AB = catalogue(("a", 1), ("b", 2), primary=["a"], last=2)


@pytest.mark.parametrize("identity", ["f", "n"])
def test_key_that_only_the_catalogue_tells_is_never_gained(identity: str) -> None:
    """I8: rows before it may be equal in it, and the stream does not say which are."""
    told = announcement(identity, "a", "b")
    versions = recorded((told, catalogue(("a", 1), ("b", 2), last=2)))

    assert describe(told, AB, {}, versions).key_columns == ()


@pytest.mark.parametrize(("partitions", "key"), [(1, []), (2, ["b"]), (4, ["b"])])
def test_key_that_was_replaced_is_taken_only_where_rows_need_one_for_their_order(
    partitions: int, key: list[str]
) -> None:
    """I3 before I8: over several partitions rows without a key have no order."""
    told = announcement("f", "a", "b")
    versions = recorded((told, AB), partitions=partitions)
    now = catalogue(("a", 1), ("b", 2), primary=["b"], last=2)

    assert [column.name for column in describe(told, now, {}, versions).key_columns] == key


@pytest.mark.parametrize(
    "now",
    [AB, catalogue(("id", 1), ("b", 2), primary=["id"], last=2), None],
    ids=["as it was", "its column renamed since", "table dropped since"],
)
def test_key_of_the_catalogue_stays_the_key(now: TableFacts | None) -> None:
    told = announcement("f", "a", "b")

    found = describe(told, now, {}, recorded((told, AB), partitions=4))

    assert [column.name for column in found.key_columns] == ["a"]


COPIED = (announcement("d", "id", "x"), catalogue(("id", 1), ("x", 2), last=2))
FILLED = announcement("d", "id", "x", "new_x")
FILLED_TEXT = announcement("d", "id", "x", "new_text")


@pytest.mark.parametrize(
    ("told", "now"),
    [
        (FILLED, catalogue(("id", 1), ("x", 3), last=3)),
        (FILLED_TEXT, catalogue(("id", 1), ("xtext", 3), last=3)),
    ],
    ids=["of the same type", "of another type"],
)
def test_columns_of_a_migration_have_their_own_numbers_though_the_catalogue_knows_its_end(
    told: Relation, now: TableFacts
) -> None:
    """I8: ADD, UPDATE, DROP and RENAME in one transaction; also when it is read again after a crash."""
    versions = recorded(COPIED)
    assert numbers_of(told, now, versions) == [1, 2, 3]
    end = announcement("d", "id", now.columns[-1].name)
    assert numbers_of(end, now, recorded(COPIED, (told, now))) == [1, 3]
    assert numbers_of(told, now, recorded(COPIED, (told, now), (end, now))) == [1, 2, 3]


def test_number_that_several_columns_may_have_is_none() -> None:
    """One of two was dropped, the other renamed: nobody can tell which is left."""
    now = catalogue(("id", 1), ("z", 3), last=3)

    versions = recorded((announcement("d", "id", "x", "y"), catalogue(("id", 1), ("x", 2), ("y", 3), last=3)))
    assert numbers_of(announcement("d", "id", "w"), now, versions) == [1, None]


def test_column_dropped_and_added_has_the_new_number() -> None:
    now = catalogue(("id", 1), ("x", 3), last=3)

    assert numbers_of(announcement("d", "id", "x"), now, recorded(COPIED)) == [1, 3]


@pytest.mark.parametrize(
    ("now", "name"),
    [
        (replace(AB, namespace="public", name="orders"), "orders"),
        (None, "orders"),
        (replace(AB, namespace="public", name="renamed"), "renamed"),
        (replace(AB, namespace="archive", name="orders"), "renamed"),
    ],
    ids=["renamed back", "dropped", "still renamed", "in another schema"],
)
def test_table_renamed_for_a_while_goes_on_under_its_name(now: TableFacts | None, name: str) -> None:
    """I7: the WAL keeps the other name, so a stop there could not be got past."""
    told = announcement("d", "a", "b")

    assert under_its_name(replace(told, name="renamed"), now, recorded((told, AB))).name == name


@pytest.mark.parametrize(
    "types", [{}, {ENUM_OID: replace(USER_TYPES[ENUM_OID], name="feeling")}], ids=["dropped", "renamed"]
)
def test_type_that_is_gone_or_called_otherwise_makes_no_other_version(types: dict[int, TypeFacts]) -> None:
    """I7: the lake refuses a change of type, and this is none."""
    told = Relation(16_384, "public", "orders", "d", (RelationColumn(True, "m", ENUM_OID, -1),))
    cache = RelationCache("p")
    first = cache.version_of(describe(told, None, USER_TYPES), PLACE)
    cache.remember(first)

    again = describe(told, None, types, cache.versions_of(16_384))

    assert cache.version_of(again, PLACE) == first
    assert again.columns[0].column_type == first.table.columns[0].column_type


Places = list[tuple[str, int]]
"""Name and attribute number of the columns behind ``id``."""


@given(st.lists(st.tuples(st.sampled_from(["add", "drop", "rename"]), st.integers(0, 5), st.booleans()), max_size=8))
@settings(max_examples=150, deadline=None)
def test_number_is_the_columns_own_or_none_however_late_the_catalogue_is_asked(
    steps: list[tuple[str, int, bool]],
) -> None:
    """I8. Names come once here; what is told is told again after a crash."""
    columns: Places = [("x", 2)]
    last, told = 2, []
    for n, (step, which, is_told) in enumerate(steps):
        at = which % len(columns) if columns else 0
        if step == "add":
            last += 1
            columns = [*columns, (f"n{n}", last)]
        elif columns:
            columns = [*columns[:at], *([(f"n{n}", columns[at][1])] if step == "rename" else []), *columns[at + 1 :]]
        told += [columns] * is_told
    now = catalogue(("id", 1), *columns, last=last)
    cache = RelationCache("p")
    cache.remember(cache.version_of(describe(*COPIED, {}), PLACE))

    for names in (*told, *told):
        found = describe(announcement("d", "id", *(name for name, _ in names)), now, {}, cache.versions_of(16_384))
        cache.remember(cache.version_of(found, PLACE))
        true = [1, *(number for _, number in names)]
        assert all(column.attnum in (number, None) for column, number in zip(found.columns, true, strict=True))
