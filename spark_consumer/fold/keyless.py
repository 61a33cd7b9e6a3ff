"""Folds events of tables without a key whose old rows are complete: such a table is a multiset of rows.

In: a segment's events. Out: one row for each distinct source row, with ``net``: how many more such rows there are
afterwards, or fewer if it is negative. Each update or delete takes away exactly one of several equal rows.

Equal means the same values and exceptional texts: null equals null, NaN equals NaN, and 0.0 is
not -0.0 (they print differently in Postgres). Spark groups the two zeros, so floats are grouped
by their text.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from walbridge.spark_consumer.delta.dialect import DELTA_RS
from walbridge.spark_consumer.fold.fold import sorted_map, struct_of
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.shape import TableShape


def row_deltas(events: DataFrame, shape: TableShape) -> DataFrame:
    """One row for each distinct source row whose number changes: its columns by place, ``change`` and ``net``."""
    common = ("op", "commit_lsn", "ordinal", "commit_time")
    new = F.struct(F.lit(1).alias("sign"), F.col("after").alias("row"), F.col("exceptional").alias("texts"))
    old = F.struct(F.lit(-1).alias("sign"), F.col("before").alias("row"), F.col("before_exceptional").alias("texts"))
    signed = events.select(*common, F.explode(F.array(new, old)).alias("half")).where("half.row is not null")
    identity = [_identity(shape, place, "half.row.").alias(f"identity{place}") for place in range(len(shape.columns))]
    prepared = signed.select(
        *identity,
        sorted_map(F.col("half.texts")).alias("texts"),
        "half.sign",
        F.struct("commit_lsn", "ordinal").alias("position"),
        F.struct("half.row", *common).alias("last"),
    ).withColumn("identity_texts", F.map_entries("texts"))
    by = [f"identity{place}" for place in range(len(shape.columns))] + ["identity_texts"]
    netted = prepared.groupBy(*by).agg(
        F.sum("sign").alias("net"), F.max_by("last", "position").alias("last"), F.first("texts").alias("texts")
    )
    values = [F.col(f"last.row.{place_name(place)}") for place in range(len(shape.columns))]
    struct = struct_of(F.col("last.op"), F.col("texts"), F.lit(None).cast("string"), "last.")
    return netted.where("net != 0").select(*values, struct.alias("change"), F.col("net").cast("int").alias("net"))


def distinguishing_values(shape: TableShape) -> Column:
    """A value that differs between any two rows of ``row_deltas``. Positions may be equal: those of copied rows are."""
    values = [_identity(shape, place) for place in range(len(shape.columns))]
    return F.struct(*values, F.map_entries("change.exceptional"))


def _identity(shape: TableShape, place: int, row: str = "") -> Column:
    value = F.col(f"{row}{place_name(place)}")
    codec = shape.columns[place].column_type
    if codec.codec in _FLOATS:
        return value.cast("string")
    if codec.codec == "map":
        # Spark groups no maps; Postgres keeps the entries of equal ones in one order.
        return F.map_entries(value)
    if codec.item is not None and codec.item.codec in _FLOATS:
        return F.transform(value, lambda item: item.cast("string"))
    return value


_FLOATS = frozenset({"float", "double"})


def same_row(shape: TableShape, target: str = "target") -> str:
    """SQL: ``source`` and the lake's row are equal, exceptional texts included."""
    pairs: list[tuple[str, str]] = []
    for place, name in enumerate(shape.lake_names):
        ours, theirs = f"source.{place_name(place)}", f"{target}.{DELTA_RS.quoted(name)}"
        pairs.append((ours, theirs))
        if shape.columns[place].column_type.codec in _FLOATS:
            # DataFusion joins the two zeros as well.
            pairs.append((f"CAST({ours} AS VARCHAR)", f"CAST({theirs} AS VARCHAR)"))
    pairs.append(("source.change['exceptional']", f"{target}.\"_walbridge\"['exceptional']"))
    return " AND ".join(f"({ours} IS NOT DISTINCT FROM {theirs})" for ours, theirs in pairs)


def kept_rows_sql(shape: TableShape) -> str:
    """SELECT of the lake's rows that stay although equal ones are deleted: all but ``-net`` of each distinct row."""
    values = [f"target.{DELTA_RS.quoted(name)} AS {place_name(place)}" for place, name in enumerate(shape.lake_names)]
    values.append('target."_walbridge" AS change')
    columns = [*[place_name(place) for place in range(len(shape.lake_names))], "change"]
    number = (
        "row_number() OVER (PARTITION BY source.number "
        "ORDER BY target.\"_walbridge\"['commit_lsn'] DESC, target.\"_walbridge\"['ordinal'] DESC)"
    )
    inner = (
        f"SELECT {', '.join(values)}, source.net AS net, {number} AS place FROM source JOIN target ON {same_row(shape)}"
    )
    return f"SELECT {', '.join(columns)} FROM ({inner}) WHERE place > -net"


def missing_rows_sql(shape: TableShape) -> str:
    """SELECT one number: of how many distinct rows the lake has fewer than are to be deleted."""
    return (
        "SELECT count(*) AS missing FROM (SELECT source.number, max(source.net) AS net, "
        "count(target.\"_walbridge\"['commit_lsn']) AS found "
        f"FROM source LEFT JOIN target ON {same_row(shape)} GROUP BY source.number) WHERE found < -net"
    )
