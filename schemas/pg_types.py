"""One table: what each Postgres type becomes in Avro and in the lake.

| Postgres | Avro | lake | kept in ``exceptional`` |
|---|---|---|---|
| bool | boolean | boolean | |
| int2, int4 | int | integer | |
| int8, oid | long | long | |
| float4 / float8 | float / double | float / double | |
| numeric(p,s), up to 38 digits | bytes, decimal(p,s) | decimal(p,s) | NaN, ±Infinity |
| numeric otherwise | string | string | |
| text, varchar, char, name, "char", enums | string | string | |
| bytea | bytes | binary | |
| date | int, date | date | ±infinity, years outside 1–9999 |
| timestamp | long, local-timestamp-micros | timestamp_ntz | the same |
| timestamptz | long, timestamp-micros | timestamp | the same |
| time, timetz, interval, uuid, json, jsonb | string | string | |
| one-dimensional array of these | array of null or that | array | other shapes, an exceptional element |
| every other type | string, its Postgres text (``pg.text``) | string | |

An enum is a string, not an Avro enum: ``ALTER TYPE ... ADD VALUE`` announces nothing in the
stream, so a label must never need a schema. Typmods: PostgreSQL source, ``numeric.c``
(``((p << 16) | (s & 0x7ff)) + 4``; s is an 11-bit signed number from version 15 on).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

AvroType = Any
"""An Avro schema as JSON: a name, or a mapping with ``type``."""

FIRST_USER_OID = 10_000
"""pgoutput announces types from here on (``FirstGenbkiObjectId``)."""
DECIMAL_PRECISION_MAX = 38


@dataclass(frozen=True, slots=True)
class TypeFacts:
    """What the catalogue says of a type that has no fixed place in the table.

    ``kind`` is ``pg_type.typtype`` (b, c, d, e, m, r), or ``a`` for a true array.
    """

    oid: int
    namespace: str
    name: str
    kind: str
    enum_labels: tuple[str, ...] = ()
    base_type: int | None = None
    element_type: int | None = None
    fields: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnType:
    """How one column travels.

    ``codec`` names the text → Avro encoder: bool, int, float, double, decimal, string, bytes,
    date, timestamp, timestamptz, array. ``is_text`` says that the type has no place in the table.
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


_STRING = ColumnType("string", "string")
_TEXT = ColumnType("string", "string", is_text=True)
_DATE = ColumnType("date", {"type": "int", "logicalType": "date"})
_TIMESTAMP = ColumnType("timestamp", {"type": "long", "logicalType": "local-timestamp-micros"})
_TIMESTAMPTZ = ColumnType("timestamptz", {"type": "long", "logicalType": "timestamp-micros"})


def numeric_digits(typmod: int) -> tuple[int, int] | None:
    """Precision and scale that hold every value of a numeric typmod, None without a typmod.

    A negative scale (Postgres 15) needs the digits it rounds away; a scale above the precision
    needs as many digits as the scale.
    """
    if typmod < 4:
        return None
    precision = (typmod - 4) >> 16 & 0xFFFF
    scale = ((typmod - 4 & 0x7FF) ^ 0x400) - 0x400
    return (precision - scale, 0) if scale < 0 else (max(precision, scale), scale)


def _numeric(typmod: int) -> ColumnType:
    digits = numeric_digits(typmod)
    if digits is None or digits[0] > DECIMAL_PRECISION_MAX:
        return _STRING
    precision, scale = digits
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
    (700, 1021, "float4", _fixed(ColumnType("float", "float"))),
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
_SCALARS = {oid: column_type for oid, _, _, column_type in _TABLE}
_ARRAYS = {array_oid: column_type for _, array_oid, _, column_type in _TABLE}
BUILTIN_NAMES = {oid: name for oid, _, name, _ in _TABLE} | {array: f"_{name}" for _, array, name, _ in _TABLE}


def column_type(type_oid: int, typmod: int, types: Mapping[int, TypeFacts]) -> ColumnType:
    """How a column of this type and typmod travels; unknown types travel as Postgres text."""
    if type_oid in _SCALARS:
        return _SCALARS[type_oid](typmod)
    if type_oid in _ARRAYS:
        return array_of(_ARRAYS[type_oid](typmod))
    facts = types.get(type_oid)
    if facts is not None and facts.kind == "e":
        return _STRING
    if facts is not None and facts.kind == "a" and facts.element_type is not None:
        element = types.get(facts.element_type)
        if element is not None and element.kind == "e":
            return array_of(_STRING)
    return _TEXT


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
        return {"type": "array", "elementType": lake_type(avro["items"][1]), "containsNull": True}
    logical = avro.get("logicalType")
    if logical == "decimal":
        return f"decimal({avro['precision']},{avro['scale']})"
    return _LAKE_LOGICAL[logical] if logical in _LAKE_LOGICAL else _LAKE_PRIMITIVES[avro["type"]]
