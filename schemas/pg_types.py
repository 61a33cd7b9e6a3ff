"""One table: what each Postgres type becomes in Avro and in the lake.

| Postgres | Avro | lake | kept in ``exceptional`` |
|---|---|---|---|
| bool | boolean | boolean | |
| int2, int4 | int | integer | |
| int8, oid | long | long | |
| float4 / float8 | float / double | float / double | |
| numeric(p,s), up to 38 digits | bytes, decimal(p,s) | decimal(p,s) | NaN, ±Infinity |
| numeric otherwise | string | string | |
| text, varchar, char, name, "char", enums; citext, ltree | string | string | |
| bytea | bytes | binary | |
| date | int, date | date | ±infinity, years outside 1–9999 |
| timestamp | long, local-timestamp-micros | timestamp_ntz | the same |
| timestamptz | long, timestamp-micros | timestamp | the same |
| time, timetz, interval, uuid, json, jsonb | string | string | |
| hstore | map of null or string | map<string, string> | |
| vector, halfvec (pgvector) | array of float | array<float> | |
| a domain | as its base type with the domain's length or precision, through nested domains | | as its base type |
| one-dimensional array of these (¹) | array of null or that | array | other arrays (²), an exceptional element |
| money, bit, varbit, inet, cidr, macaddr, macaddr8, xml, tsvector, tsquery, pg_lsn, xid8 | text | string | |
| point, line, lseg, box, path, polygon, circle; ranges, multiranges; composites | text | string | |
| sparsevec, lquery, reg… types, arrays of these, and every type not named here | text | string | |

(¹) but for hstore, vectors and domains over arrays, whose arrays are text.
(²) of several dimensions, or with another lower bound than 1.

*Text* is a string that holds the value as Postgres prints it under the pinned settings, marked
``pg.text``: exact, and for readers to parse. An enum is a string, not an Avro enum: ``ALTER TYPE
... ADD VALUE`` announces nothing in the stream, so a label must never need a schema. The items of
a vector cannot be null, so its Avro type tells it from an array of float4. Types of extensions
are known by extension and name, for their oids differ.

To add a type that travels as an existing codec does, write it into ``_TABLE`` or ``_OF_EXTENSIONS`` and into the table
above; for sessions in binary it also needs a reader (``producer/encoding/binary/types.py``). A new codec also needs its
place in ``type_of_avro``, ``lake_type`` and the properties of ``ColumnType``, and encoders: from text in
``schemas/avro/value_encoders.py``, from binary in ``producer/encoding/binary/encoders.py``. ``walbridge verify``
compares texts of its own (``walbridge/verify/texts/``).

Typmods: PostgreSQL source, ``numeric.c`` (``((p << 16) | (s & 0x7ff)) + 4``; s is an 11-bit signed
number from version 15 on). A column of a domain has none; ``getBaseTypeAndTypmod`` takes the last
domain's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

AvroType = Any
"""An Avro schema as JSON: a name, or a mapping with ``type``."""

FIRST_USER_OID = 10_000
"""pgoutput announces types from here on (``FirstGenbkiObjectId``)."""
DECIMAL_PRECISION_MAX = 38


@dataclass(frozen=True, slots=True)
class TypeFacts:
    """What the catalogue says of a type that has no fixed place in the table.

    ``kind`` is ``pg_type.typtype`` (b, c, d, e, m, r), or ``a`` for a true array. ``element_type``:
    of a range its bounds', of a multirange its range. ``typmod`` (of a
    domain's base) and ``extension`` are not in Type records, so they do not make two of them differ.
    """

    oid: int
    namespace: str
    name: str
    kind: str
    enum_labels: tuple[str, ...] = ()
    base_type: int | None = None
    element_type: int | None = None
    fields: tuple[tuple[str, int], ...] = ()
    typmod: int = field(default=-1, compare=False)
    extension: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ColumnType:
    """How one column travels.

    ``codec`` names the text → Avro encoder: bool, int, float, double, decimal, string, bytes,
    date, timestamp, timestamptz, array, map, vector. ``is_text`` says that the type has no place
    in the table.
    """

    codec: str
    avro: AvroType
    scale: int = 0
    is_text: bool = False
    item: "ColumnType | None" = None

    @property
    def lake(self) -> str | dict[str, Any]:
        """The Delta type, as the Delta protocol writes it in JSON."""
        return lake_type(self.avro)

    @property
    def may_be_exceptional(self) -> bool:
        """Whether Postgres has values of this type that the Avro type cannot hold."""
        return self.codec in ("decimal", "date", "timestamp", "timestamptz", "array")

    @property
    def may_be_toasted(self) -> bool:
        """Whether Postgres may store a value out of line, and so leave it out of an update (I6)."""
        return self.codec in ("string", "bytes", "decimal", "array", "map", "vector")

    @property
    def may_be_item(self) -> bool:
        """Whether its arrays are arrays, not text."""
        return not self.is_text and self.codec not in ("array", "map", "vector")


_STRING = ColumnType("string", "string")
_TEXT = ColumnType("string", "string", is_text=True)
_DATE = ColumnType("date", {"type": "int", "logicalType": "date"})
_FLOAT = ColumnType("float", "float")
_MAP = ColumnType("map", {"type": "map", "values": ["null", "string"]})
_VECTOR = ColumnType("vector", {"type": "array", "items": "float"}, item=_FLOAT)
_TIMESTAMP = ColumnType("timestamp", {"type": "long", "logicalType": "local-timestamp-micros"})
_TIMESTAMPTZ = ColumnType("timestamptz", {"type": "long", "logicalType": "timestamp-micros"})


def numeric_modifier(typmod: int) -> tuple[int, int] | None:
    """Precision and scale as a numeric was declared, None without a typmod."""
    if typmod < 4:
        return None
    return (typmod - 4) >> 16 & 0xFFFF, ((typmod - 4 & 0x7FF) ^ 0x400) - 0x400


def numeric_digits(typmod: int) -> tuple[int, int] | None:
    """Precision and scale that hold every value of a numeric typmod, None without a typmod.

    A negative scale (Postgres 15) needs the digits it rounds away; a scale above the precision
    needs as many digits as the scale.
    """
    declared = numeric_modifier(typmod)
    if declared is None:
        return None
    precision, scale = declared
    return (precision - scale, 0) if scale < 0 else (max(precision, scale), scale)


def _numeric(typmod: int) -> ColumnType:
    digits = numeric_digits(typmod)
    if digits is None or digits[0] > DECIMAL_PRECISION_MAX:
        return _STRING
    return _decimal(*digits)


def _decimal(precision: int, scale: int) -> ColumnType:
    avro = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    return ColumnType("decimal", avro, scale=scale)


def _fixed(column_type: ColumnType) -> Callable[[int], ColumnType]:
    return lambda _typmod: column_type


# (type oid, array oid, name, column type by typmod): pg_type.dat
_TABLE: tuple[tuple[int, int, str, Callable[[int], ColumnType]], ...] = (
    (16, 1000, "bool", _fixed(ColumnType("bool", "boolean"))),
    (17, 1001, "bytea", _fixed(ColumnType("bytes", "bytes"))),
    (18, 1002, "char", _fixed(_STRING)),
    (19, 1003, "name", _fixed(_STRING)),
    (20, 1016, "int8", _fixed(ColumnType("int", "long"))),
    (21, 1005, "int2", _fixed(ColumnType("int", "int"))),
    (23, 1007, "int4", _fixed(ColumnType("int", "int"))),
    (25, 1009, "text", _fixed(_STRING)),
    (26, 1028, "oid", _fixed(ColumnType("int", "long"))),
    (114, 199, "json", _fixed(_STRING)),
    (700, 1021, "float4", _fixed(_FLOAT)),
    (701, 1022, "float8", _fixed(ColumnType("double", "double"))),
    (1042, 1014, "bpchar", _fixed(_STRING)),
    (1043, 1015, "varchar", _fixed(_STRING)),
    (1082, 1182, "date", _fixed(_DATE)),
    (1083, 1183, "time", _fixed(_STRING)),
    (1114, 1115, "timestamp", _fixed(_TIMESTAMP)),
    (1184, 1185, "timestamptz", _fixed(_TIMESTAMPTZ)),
    (1186, 1187, "interval", _fixed(_STRING)),
    (1266, 1270, "timetz", _fixed(_STRING)),
    (1700, 1231, "numeric", _numeric),
    (2950, 2951, "uuid", _fixed(_STRING)),
    (3802, 3807, "jsonb", _fixed(_STRING)),
)
_PLAIN = (*(column_type(-1) for _, _, _, column_type in _TABLE), _MAP, _VECTOR)
"""Each column type once or more, but for decimals and arrays, which are many."""
_SCALARS = {oid: column_type for oid, _, _, column_type in _TABLE}
_ARRAYS = {array_oid: column_type for _, array_oid, _, column_type in _TABLE}
BUILTIN_ELEMENTS = {array_oid: oid for oid, array_oid, _, _ in _TABLE}
"""By array type."""
BUILTIN_NAMES = {oid: name for oid, _, name, _ in _TABLE} | {array: f"_{name}" for _, array, name, _ in _TABLE}


# (extension, type name)
_OF_EXTENSIONS: dict[tuple[str | None, str], ColumnType] = {
    ("citext", "citext"): _STRING,
    ("hstore", "hstore"): _MAP,
    ("ltree", "ltree"): _STRING,
    ("vector", "halfvec"): _VECTOR,
    ("vector", "vector"): _VECTOR,
}


def column_type(type_oid: int, typmod: int, types: Mapping[int, TypeFacts]) -> ColumnType:
    """How a column of this type and typmod travels; unknown types travel as Postgres text."""
    type_oid, typmod = domain_base(type_oid, typmod, types)
    if type_oid in _SCALARS:
        return _SCALARS[type_oid](typmod)
    if type_oid in _ARRAYS:
        return array_of(_ARRAYS[type_oid](typmod))
    facts = types.get(type_oid)
    if facts is None:
        return _TEXT
    if facts.kind == "e":
        return _STRING
    if facts.kind == "a" and facts.element_type is not None:
        item = column_type(facts.element_type, typmod, types)
        return array_of(item) if item.may_be_item else _TEXT
    return _OF_EXTENSIONS.get((facts.extension, facts.name), _TEXT)


def domain_base(type_oid: int, typmod: int, types: Mapping[int, TypeFacts]) -> tuple[int, int]:
    """The type and typmod under all domains; of another type itself."""
    facts = types.get(type_oid)
    while facts is not None and facts.kind == "d" and facts.base_type is not None:
        type_oid, typmod = facts.base_type, facts.typmod
        facts = types.get(type_oid)
    return type_oid, typmod


def type_of_avro(avro: AvroType, *, is_text: bool = False) -> ColumnType | None:
    """The column type that travels so; None for one that this code does not know."""
    if is_text:
        return _TEXT if avro == "string" else None
    known = next((each for each in _PLAIN if each.avro == avro), None)
    if known is not None or not isinstance(avro, dict):
        return known
    precision, scale, items = avro.get("precision"), avro.get("scale"), avro.get("items")
    if isinstance(precision, int) and isinstance(scale, int):
        known = _decimal(precision, scale)
    elif isinstance(items, list) and len(items) == 2:
        item = type_of_avro(items[1])
        known = array_of(item) if item is not None and item.may_be_item else None
    return known if known is not None and known.avro == avro else None


def array_of(item: ColumnType) -> ColumnType:
    """The one-dimensional array whose elements may be null."""
    return ColumnType("array", {"type": "array", "items": ["null", item.avro]}, item=item)


_LAKE_PRIMITIVES = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
_LAKE_LOGICAL = {"date": "date", "local-timestamp-micros": "timestamp_ntz", "timestamp-micros": "timestamp"}


def lake_type(avro: AvroType) -> str | dict[str, Any]:
    """The Delta type of an Avro type of the table above, in the Delta protocol's JSON form."""
    if isinstance(avro, str):
        return _LAKE_PRIMITIVES[avro]
    if avro["type"] == "array":
        items = avro["items"]
        return {
            "type": "array",
            "elementType": lake_type(items if items == "float" else items[1]),
            "containsNull": True,
        }
    if avro["type"] == "map":
        return {
            "type": "map",
            "keyType": "string",
            "valueType": lake_type(avro["values"][1]),
            "valueContainsNull": True,
        }
    logical = avro.get("logicalType")
    if logical == "decimal":
        return f"decimal({avro['precision']},{avro['scale']})"
    return _LAKE_LOGICAL[logical] if logical in _LAKE_LOGICAL else _LAKE_PRIMITIVES[avro["type"]]
