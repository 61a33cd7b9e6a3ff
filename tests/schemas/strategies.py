"""Generators of what the contract carries: Postgres names, positions, tables, cuts, progress."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from walbridge.schemas.avro.codec import schema_id
from walbridge.schemas.avro.schema import key_schema, value_schema
from walbridge.schemas.control.cut import Barrier, Cut, Epoch, PartitionRange, TableChanges
from walbridge.schemas.control.metadata_record import RelationRecord, TypeRecord
from walbridge.schemas.control.progress_record import Progress, Split
from walbridge.schemas.control.table_progress import TableCopy, TableProgress
from walbridge.schemas.pg_types import BUILTIN_NAMES, TypeFacts, column_type, domain_base
from walbridge.schemas.position import Lsn, Position
from walbridge.schemas.table_schema import Column, TableSchema
from walbridge.schemas.topics import data_topic

NAME_BYTES_MAX = 63
"""Postgres cuts a name there: NAMEDATALEN - 1."""

_ODD = st.sampled_from(["_u0041", "_u005f", "_", "u", ".", "$", '"', " ", "é", "É", "😀", "a", "A", "ſ", "0", "-"])
_ANY_CHARACTER = st.characters(exclude_characters="\0", codec="utf-8")


def _fits(name: str) -> bool:
    return 0 < len(name.encode()) <= NAME_BYTES_MAX


def pg_names() -> st.SearchStrategy[str]:
    """Any name that Postgres takes; often one that looks like an escape or differs in case only."""
    odd = st.lists(_ODD, min_size=1, max_size=12).map("".join)
    return (odd | st.text(_ANY_CHARACTER, min_size=1, max_size=NAME_BYTES_MAX)).filter(_fits)


INT_32 = st.integers(-(2**31), 2**31 - 1)
INT_64 = st.integers(-(2**63), 2**63 - 1)
LSNS = st.integers(0, 2**63 - 1).map(Lsn)
OIDS = st.integers(1, 2**32 - 1)
COUNTS = st.integers(0, 2**40)
SCHEMA_IDS = st.binary(min_size=8, max_size=8).map(bytes.hex)
POSITIONS = st.builds(Position, LSNS, st.integers(-1, 2**40))
EPOCHS = st.builds(
    Epoch, system_id=st.from_regex(r"[1-9][0-9]{15,18}", fullmatch=True), timeline=st.integers(1, 2**31 - 1),
    slot=st.from_regex(r"[a-z0-9_]{1,63}", fullmatch=True), consistent_point=LSNS,
)  # fmt: skip
BARRIERS = st.builds(
    Barrier,
    st.sampled_from(["copy_begin", "copy_end", "truncate", "shape", "key", "dropped"]),
    POSITIONS,
    st.none() | SCHEMA_IDS,
)
CUTS = st.builds(
    Cut, epoch=EPOCHS, cut_id=COUNTS, previous_end_lsn=LSNS, end_lsn=LSNS, commit_lsn=st.none() | LSNS,
    commit_time_us=st.none() | INT_64, transactions=COUNTS, complete=st.booleans(), metadata_end_offset=COUNTS,
    partitions=st.lists(
        st.builds(PartitionRange, st.text(max_size=20), st.integers(0, 1000), COUNTS, COUNTS, COUNTS), max_size=4
    ).map(tuple),
    tables=st.lists(
        st.builds(
            TableChanges, OIDS, st.text(max_size=20), st.lists(SCHEMA_IDS, max_size=3).map(tuple), COUNTS,
            st.lists(BARRIERS, max_size=4).map(tuple),
        ), max_size=3,
    ).map(tuple),
)  # fmt: skip
TABLES = st.builds(
    TableProgress, relation_id=OIDS, state=st.sampled_from(["copying", "current", "stale", "quarantined", "dropped"]),
    topic=st.none() | st.text(max_size=20), topic_id=st.none() | st.text(max_size=8),
    membership=st.none() | st.text(max_size=20), since=st.none() | LSNS, why=st.none() | st.text(max_size=20),
    copy=st.none() | st.builds(
        TableCopy, LSNS, st.none() | st.lists(st.text(), max_size=2).map(tuple), COUNTS, COUNTS, COUNTS,
        st.booleans(), st.text(max_size=8), st.dictionaries(st.binary(max_size=4), st.binary(max_size=4), max_size=2),
    ),
    storage=st.none() | st.text(max_size=20), troubles=st.lists(INT_64, max_size=3).map(tuple),
)  # fmt: skip
_BY_TABLE = st.dictionaries(OIDS, COUNTS, max_size=3)
PROGRESS = st.builds(
    Progress, state=st.sampled_from(["creating", "copying", "streaming"]), system_id=st.text(max_size=20),
    timeline=st.integers(1, 2**31 - 1), slot=st.text(min_size=1, max_size=63), database=pg_names(),
    consistent_point=st.none() | LSNS, cut_id=COUNTS, end_lsn=LSNS, done=LSNS, floor=LSNS,
    split=st.none() | st.builds(
        Split, LSNS, OIDS, COUNTS, COUNTS, st.text(max_size=32), st.none() | _BY_TABLE, st.booleans(), _BY_TABLE
    ),
    tables=st.lists(TABLES, max_size=5).map(lambda tables: {each.relation_id: each for each in tables}),
    options=st.dictionaries(st.text(), st.text(), max_size=3),
    last_message_lsn=st.none() | LSNS, written_at_us=INT_64,
)  # fmt: skip
TYPE_FACTS = st.builds(
    TypeFacts, oid=OIDS, namespace=pg_names(), name=pg_names(), kind=st.sampled_from("bcdemra"),
    enum_labels=st.lists(st.text(), max_size=4).map(tuple), base_type=st.none() | OIDS,
    element_type=st.none() | OIDS,
    fields=st.lists(st.tuples(pg_names(), OIDS), max_size=3).map(tuple),
)  # fmt: skip
TYPE_RECORDS = st.builds(TypeRecord, TYPE_FACTS, st.integers(1, 1000))


def numeric_typmod(precision: int, scale: int) -> int:
    """As ``make_numeric_typmod`` in numeric.c has it."""
    return (precision << 16 | scale & 0x7FF) + 4


ENUM_OID, ENUM_ARRAY_OID, UNKNOWN_OID = 90_001, 90_002, 90_003
HSTORE_OID, VECTOR_OID, CITEXT_OID, PRICE_OID, FEE_OID, FEES_OID, WORDS_OID = range(90_004, 90_011)
USER_TYPES = {
    facts.oid: facts
    for facts in (
        TypeFacts(ENUM_OID, "public", "mood", "e", ("sad", "ok")),
        TypeFacts(ENUM_ARRAY_OID, "public", "_mood", "a", element_type=ENUM_OID),
        TypeFacts(UNKNOWN_OID, "public", "box3d", "b"),
        TypeFacts(HSTORE_OID, "public", "hstore", "b", extension="hstore"),
        TypeFacts(VECTOR_OID, "public", "vector", "b", extension="vector"),
        TypeFacts(CITEXT_OID, "public", "citext", "b", extension="citext"),
        TypeFacts(PRICE_OID, "public", "price", "d", base_type=1700, typmod=numeric_typmod(10, 2)),
        TypeFacts(FEE_OID, "public", "fee", "d", base_type=PRICE_OID),
        TypeFacts(FEES_OID, "public", "_fee", "a", element_type=FEE_OID),
        TypeFacts(WORDS_OID, "public", "words", "d", base_type=1009),
    )
}
"""fee is a domain over price, which is one over numeric(10,2); words is one over text[]."""
TYPE_NAMES = BUILTIN_NAMES | {oid: facts.name for oid, facts in USER_TYPES.items()}


def column(name: str, type_oid: int, typmod: int = -1, **facts: Any) -> Column:
    """A column of a built-in type or one of USER_TYPES."""
    known = column_type(type_oid, typmod, USER_TYPES)
    base, base_typmod = domain_base(type_oid, typmod, USER_TYPES)
    if base != type_oid:
        facts |= {"base_type": TYPE_NAMES[base], "base_typmod": base_typmod}
    return Column(name, type_oid, TYPE_NAMES[type_oid], typmod, known, **facts)


def table(*columns: Column, namespace: str = "public", name: str = "orders") -> TableSchema:
    """A table of these columns with replica identity DEFAULT."""
    return TableSchema(16_384, namespace, name, "d", columns)


@st.composite
def tables(draw: st.DrawFn) -> TableSchema:
    """A table of up to eight columns of any known or unknown type, keyed or not."""
    names = draw(st.lists(pg_names(), max_size=8, unique=True))
    digits = st.tuples(st.integers(1, 60), st.integers(-20, 60)).map(lambda pair: numeric_typmod(*pair))
    columns = []
    for name in names:
        oid = draw(st.sampled_from(sorted(TYPE_NAMES)))
        typmod = draw(st.just(-1) | digits) if oid in (1700, 1231) else -1
        is_key = draw(st.booleans())
        attnum = draw(st.none() | st.integers(1, 1600))
        missing = draw(st.none() | st.text(max_size=5))
        nullable = draw(st.none() | st.booleans())
        columns.append(
            column(name, oid, typmod, is_key=is_key, in_replica_identity=is_key, attnum=attnum,
                   nullable=nullable, missing_value=missing)
        )  # fmt: skip
    identity = draw(st.sampled_from("dnfi"))
    root = draw(st.none() | OIDS)
    return TableSchema(draw(OIDS), draw(pg_names()), draw(pg_names()), identity, tuple(columns), root)


@st.composite
def relation_records(draw: st.DrawFn) -> RelationRecord:
    """The metadata record of such a table, as the producer writes it."""
    of_table = draw(tables())
    revision = draw(st.integers(0, 3))
    value, key = value_schema("p", of_table, revision), key_schema("p", of_table, revision)
    topic = data_topic("p", "s", "t")
    record = RelationRecord(
        of_table, topic, draw(st.integers(1, 1000)), schema_id(value), json.dumps(value),
        schema_id(key) if key else None, json.dumps(key) if key else None, revision, *draw(registered(key)),
    )  # fmt: skip
    return replace(record, is_json=record.value_registry_id is None and draw(st.booleans()))


def registered(key: object | None) -> st.SearchStrategy[tuple[int | None, int | None]]:
    """Ids of a registry for value and key, or none."""
    ids = st.integers(0, 2**31 - 1)
    return st.just((None, None)) | st.tuples(ids, ids if key else st.none())
