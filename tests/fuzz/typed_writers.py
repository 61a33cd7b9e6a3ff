"""Tables of one column, of every type that travels in its own way: as text, and in binary."""

import json
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import fastavro

from walbridge.producer.encoding.binary import types as binary_types
from walbridge.producer.encoding.binary.lines import binary_columns
from walbridge.producer.encoding.binary.types import BinaryFacts, TypeReaders
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.pgoutput.messages import Relation, RelationColumn
from walbridge.producer.relations.relation_cache import DataTopic, RelationCache
from walbridge.producer.relations.table_description import describe
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.pg_types import BUILTIN_NAMES, TypeFacts

EXTENSIONS = {
    facts.oid: facts
    for facts in (
        TypeFacts(600_001, "public", "hstore", "b", extension="hstore"),
        TypeFacts(600_002, "public", "vector", "b", extension="vector"),
        TypeFacts(600_003, "public", "halfvec", "b", extension="vector"),
    )
}
_NUMERICS = [(9, 2), (38, 0)]
_TYPES = [
    *((oid, -1) for oid in (*BUILTIN_NAMES, *EXTENSIONS)),
    *((oid, (precision << 16 | scale) + 4) for oid in (1700, 1231) for precision, scale in _NUMERICS),
]
_OWN_OID, _PAIR, _RANGE, _MULTIRANGE = 700_000, 699_001, 699_002, 699_003
_INT4, _INT4_ARRAY, _NUMERIC = 23, 1007, 1700


class TypedWriter(NamedTuple):
    """The writer, and the schema that a reader decodes its records with."""

    writer: RecordWriter
    schema: object


def one_field(kind: bytes, data: bytes) -> bytes:
    """A tuple of one value."""
    return b"\0\1" + kind + len(data).to_bytes(4, "big") + data


def _record(cache_: RelationCache, type_oid: int, typmod: int) -> RelationRecord:
    relation = Relation(1, "public", "t", "d", (RelationColumn(False, "c", type_oid, typmod),))
    return cache_.version_of(describe(relation, None, EXTENSIONS), DataTopic("t", 1))


def _typed(record: RelationRecord, writer: RecordWriter) -> TypedWriter:
    return TypedWriter(writer, fastavro.parse_schema(json.loads(record.value_schema)))


@cache
def typed_writers() -> list[TypedWriter]:
    """Values come as text: types that travel alike are one."""
    cache_ = RelationCache("p")
    found: dict[str, RelationRecord] = {}
    for type_oid, typmod in _TYPES:
        record = _record(cache_, type_oid, typmod)
        found.setdefault(str(record.table.columns[0].column_type), record)
    return [_typed(record, RecordWriter(record, "p", "db")) for record in found.values()]


@cache
def binary_writers() -> list[TypedWriter]:
    """Values come in binary: every type whose format is known, by its oid where it has one of its own."""
    facts = _binary_facts()
    readers = TypeReaders(lambda oids: facts, 180000)
    cache_ = RelationCache("p")
    columns = dict.fromkeys((*((oid, typmod) for oid, typmod in _TYPES if oid in facts), *((oid, -1) for oid in facts)))
    records = [_record(cache_, oid, typmod) for oid, typmod in columns]
    return [
        _typed(record, RecordWriter(record, "p", "db", binary_columns(record.table, readers))) for record in records
    ]


def _binary_facts() -> dict[int, BinaryFacts]:
    by_output = {functions[0]: functions for functions in sorted(binary_types._READERS)}
    oids = {name: oid for oid, name in BUILTIN_NAMES.items()}
    own = dict(_known(by_output, oids))
    arrays = {oids[f"_{BUILTIN_NAMES[oid]}"]: oid for oid in own if oid in BUILTIN_NAMES}
    kept = set(own.values())
    others = enumerate((each for each in by_output.values() if each not in kept), _OWN_OID)
    array = ("", "array_out"), ("", "array_send")
    return {
        **{oid: BinaryFacts(oid, "own", *functions) for oid, functions in (*own.items(), *others)},
        **{oid: BinaryFacts(oid, "array", *array, element=element) for oid, element in arrays.items()},
        _PAIR: BinaryFacts(_PAIR, "pair", ("", "record_out"), ("", "record_send"), fields=(_INT4, _INT4_ARRAY)),
        _RANGE: BinaryFacts(_RANGE, "range", ("", "range_out"), ("", "range_send"), subtype=_NUMERIC),
        _MULTIRANGE: BinaryFacts(
            _MULTIRANGE, "multirange", ("", "multirange_out"), ("", "multirange_send"), subtype=_RANGE
        ),
    }


def _known(
    by_output: dict[binary_types.Function, tuple[binary_types.Function, binary_types.Function]], oids: dict[str, int]
) -> Iterable[tuple[int, tuple[binary_types.Function, binary_types.Function]]]:
    """Types with a column type of their own, by the names of their output functions."""
    names = [(oid, "", name) for name, oid in oids.items() if not name.startswith("_")]
    names += [(oid, facts.extension or "", facts.name) for oid, facts in EXTENSIONS.items()]
    for oid, owner, name in names:
        functions = by_output.get((owner, f"{name}out")) or by_output.get((owner, f"{name}_out"))
        assert functions is not None, name
        yield oid, functions
