"""Rewrites a table's rows in another shape by Spark's executors: no row crosses the driver.

In: a table at its head, and a ``Rewrite``. Out: one commit that overwrites the table, at the version after its head.
"""

import json
from collections.abc import Collection, Iterable

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField

from walbridge.spark_consumer.delta.by_spark.commit import FILE_ROWS_MAX, committed_by_spark, spark_path
from walbridge.spark_consumer.delta.columns import LakeField, Rewrite, arrow_schema
from walbridge.spark_consumer.delta.commit import Commit
from walbridge.spark_consumer.delta.dialect import SPARK
from walbridge.spark_consumer.delta.table import LakeTable

_TEXTS = "exceptional"
_PLAIN_SCALE_MAX = 6
"""``BigDecimal.toString`` prints no exponent up to this scale."""


def takes_types(table: LakeTable, columns: Iterable[LakeField]) -> bool:
    """Whether Spark can give the table these columns. The first timestamp without a zone needs a Delta feature, which
    delta-rs adds to the table, and Spark does not."""
    return _has_zoneless(table.fields) or not _has_zoneless(columns)


def prints_as_postgres(table: LakeTable, into_text: Collection[str]) -> bool:
    """Whether Spark prints these decimals as Postgres does, whatever its settings: with a larger scale it may print an
    exponent."""
    found = (str(field.type) for field in table.fields if field.name in into_text)
    return all(int(each.rstrip(")").rpartition(",")[2]) <= _PLAIN_SCALE_MAX for each in found)


def _has_zoneless(fields: Iterable[LakeField]) -> bool:
    return any("timestamp_ntz" in json.dumps(field.type) for field in fields)


def rewrite_by_spark(spark: SparkSession, table: LakeTable, rewrite: Rewrite, commit: Commit) -> None:
    """Overwrite the table.

    Raises:
        ConcurrentCommit: another program committed to the table meanwhile.
    """
    new, columns, struct = rewrite.added, rewrite.columns, rewrite.struct
    table.keep_bounds([*rewrite.fields, struct], commit)
    schema = arrow_schema(new)
    row = pa.Table.from_pylist([{field.name: rewrite.values.get(field.name) for field in new}], schema)
    found = spark.read.format("delta").option("versionAsOf", table.version).load(spark_path(table))
    old = [_read(origin, rewrite).alias(f"o{at}") for at, (_, origin) in enumerate(columns) if origin is not None]
    rows = found.select(*old, F.col(SPARK.quoted(struct.name)).alias("own"))
    if new:
        named = row.rename_columns([f"o{at}" for at, (_, origin) in enumerate(columns) if origin is None])
        constants = spark.createDataFrame(named, from_arrow_schema(named.schema, prefer_timestamp_ntz=True))
        rows = rows.crossJoin(F.broadcast(constants))
    changed = F.col("own").withField(_TEXTS, _texts(F.col(f"own.{_TEXTS}"), rewrite))
    selected = [_as(F.col(f"o{at}"), field) for at, (field, _) in enumerate(columns)]
    _overwrite(table, rows.select(*selected, _as(changed, struct)), commit)


def _read(name: str, rewrite: Rewrite) -> Column:
    column = F.col(SPARK.quoted(name))
    if name not in rewrite.into_text:
        return column
    texts = F.col(f"{SPARK.quoted(rewrite.struct.name)}.{_TEXTS}")
    return F.coalesce(column.cast("string"), F.element_at(texts, F.lit(rewrite.into_text[name])))


def _as(column: Column, field: LakeField) -> Column:
    described = StructField.fromJson(field.json())
    return column.cast(described.dataType).alias(field.name, metadata=described.metadata)


def _texts(found: Column, rewrite: Rewrite) -> Column:
    """The exceptional texts by the columns' new names, sorted; null where there are none."""
    renames, texts = rewrite.renames, rewrite.texts
    none = F.from_json(F.lit("{}"), "map<string, string>")
    kept = F.coalesce(found, none)
    if renames:
        names = F.create_map(*[F.lit(name) for pair in renames.items() for name in pair])
        kept = F.map_filter(kept, lambda name, _: F.map_contains_key(names, name))
        kept = F.transform_keys(kept, lambda name, _: F.element_at(names, name))
    else:
        kept = none
    if texts:
        kept = F.map_concat(kept, F.create_map(*[F.lit(text) for pair in texts.items() for text in pair]))
    ordered = F.map_from_entries(F.array_sort(F.map_entries(kept)))
    return F.when(F.size(kept) > 0, ordered)


def _overwrite(table: LakeTable, rows: DataFrame, commit: Commit) -> None:
    with committed_by_spark(table, commit):
        said = {"userMetadata": commit.user_metadata(), "maxRecordsPerFile": str(FILE_ROWS_MAX)}
        rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").options(**said).save(
            spark_path(table)
        )
