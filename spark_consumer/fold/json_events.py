"""Events in JSON, decoded in the JVM: what ``schema_join`` makes of Avro, in the same columns and types.

In: records whose values are JSON of one relation version (``schemas.json_format``). Out: the fields that the job needs.
Spark's parser gives plain values under the columns' names. They are cast to the types that ``from_avro`` gives, each
under the name of its place. Spark rounds no number on the way: a float4 is written so that reading it as a double gives
the same value, and a numeric is text.
"""

from collections.abc import Callable, Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.pg_types import ColumnType

_PLAIN: dict[str, T.DataType] = {
    "bool": T.BooleanType(),
    "float": T.DoubleType(),
    "double": T.DoubleType(),
    "decimal": T.StringType(),
    "string": T.StringType(),
    "bytes": T.BinaryType(),
    "date": T.IntegerType(),
    "timestamp": T.LongType(),
    "timestamptz": T.LongType(),
    "map": T.MapType(T.StringType(), T.StringType()),
}
_TEXTS = T.MapType(T.StringType(), T.StringType())
_SOURCE = T.StructType([T.StructField(name, T.LongType()) for name in ("ts_us", "commit_lsn", "ordinal")])
_BROKEN = "_broken"
Named = Callable[[int], str]
"""The name of a column's place."""


def decoded(records: DataFrame, relation: RelationRecord, key_places: Sequence[int], named: Named) -> DataFrame:
    """The records as events; one that cannot be read fails. ``before`` holds only the key columns, if there is a
    key."""
    # The event is put into an array and taken out again, so that no filter parses the JSON a second time.
    parsed = F.from_json(F.col("value").cast("string"), _fields(relation, key_places), {"mode": "FAILFAST"})
    events = records.select("partition", "offset", "key", F.inline(F.array(parsed)))
    places = range(len(relation.table.columns))
    return events.select(
        *["partition", "offset", "key"],
        _row("before", relation, key_places or places, named),
        _row("after", relation, places, named),
        *["source", "op", "unchanged", "exceptional", "before_exceptional"],
    )


def broken(records: DataFrame, relation: RelationRecord, key_places: Sequence[int]) -> DataFrame:
    """The records that cannot be read."""
    fields = _fields(relation, key_places).add(_BROKEN, T.StringType())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BROKEN}
    event = F.from_json(F.col("value").cast("string"), fields, options)
    found = records.select("partition", "offset", F.inline(F.array(event)))
    return found.where(F.col(_BROKEN).isNotNull() | F.col("op").isNull() | F.col("source.commit_lsn").isNull())


def _fields(relation: RelationRecord, key_places: Sequence[int]) -> T.StructType:
    columns = relation.table.columns
    return T.StructType(
        [
            T.StructField("before", _plain_row(relation, key_places or range(len(columns)))),
            T.StructField("after", _plain_row(relation, range(len(columns)))),
            T.StructField("source", _SOURCE),
            T.StructField("op", T.StringType()),
            T.StructField("unchanged", T.ArrayType(T.StringType())),
            T.StructField("exceptional", _TEXTS),
            T.StructField("before_exceptional", _TEXTS),
        ]
    )


def _plain_row(relation: RelationRecord, places: Iterable[int]) -> T.StructType:
    columns = [relation.table.columns[place] for place in places]
    return T.StructType([T.StructField(each.name, _plain(each.column_type)) for each in columns])


def _plain(column_type: ColumnType) -> T.DataType:
    if column_type.item is not None:
        return T.ArrayType(_plain(column_type.item))
    if column_type.codec == "int":
        return T.IntegerType() if column_type.avro == "int" else T.LongType()
    return _PLAIN[column_type.codec]


def _row(row: str, relation: RelationRecord, places: Iterable[int], named: Named) -> Column:
    columns = [(place, relation.table.columns[place]) for place in places]
    values = [_value(F.col(row).getField(each.name), each.column_type).alias(named(place)) for place, each in columns]
    return F.when(F.col(row).isNotNull(), F.struct(*values)).alias(row)


def _value(plain: Column, column_type: ColumnType) -> Column:
    """A plain value in the type that ``from_avro`` gives. The session's time zone is UTC."""
    match column_type.codec:
        case "float":
            return plain.cast("float")
        case "decimal":
            return plain.cast(T.DecimalType(column_type.avro["precision"], column_type.scale))
        case "date":
            return F.date_from_unix_date(plain)
        case "timestamptz":
            return F.timestamp_micros(plain)
        case "timestamp":
            return F.timestamp_micros(plain).cast("timestamp_ntz")
        case "array" | "vector":
            item = column_type.item
            assert item is not None
            return F.transform(plain, lambda each: _value(each, item))
    return plain
