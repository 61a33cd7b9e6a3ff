"""Records to events: types, ranges of positions, schemas of one topic kept apart."""

import datetime
import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.contract_writer import Event
from tests.in_soak import in_variants
from tests.spark_consumer.events import Log, column, copied, head_rows, relation
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.position import Lsn, Position
from walbridge.spark_consumer.fold.schema_join import events
from walbridge.spark_consumer.plan.plan import Segment

LSN = 0x1100
UTC = datetime.UTC
VALUES: list[tuple[str, int, Any]] = [
    ("bool", -1, True),
    ("int2", -1, -32768),
    ("int4", -1, 2**31 - 1),
    ("int8", -1, -(2**63)),
    ("oid", -1, 2**32 - 1),
    ("float4", -1, 0.5),
    ("float8", -1, -0.0),
    ("numeric", (38 << 16 | 10) + 4, Decimal("-1234567890123456789012345678.0123456789")),
    ("numeric", -1, "123456789012345678901234567890123456789012345"),
    ("text", -1, "ä€😀\\'\"\n"),
    ("bytea", -1, b"\x00\xff"),
    ("date", -1, datetime.date(1, 1, 1)),
    ("date", -1, datetime.date(9999, 12, 31)),
    ("timestamp", -1, datetime.datetime(1582, 10, 10, 23, 59, 59, 999999)),
    ("timestamptz", -1, datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
    ("timestamptz", -1, datetime.datetime(1, 1, 1, tzinfo=UTC)),
    ("uuid", -1, "123e4567-e89b-12d3-a456-426614174000"),
    ("jsonb", -1, '{"a": 1}'),
    ("_int4", -1, [1, None, 3]),
    ("_text", -1, ['"', "", None]),
    ("_numeric", (10 << 16 | 2) + 4, [Decimal("1.50"), None]),
    ("_timestamptz", -1, [datetime.datetime(2024, 2, 29, tzinfo=UTC)]),
    ("_bytea", -1, [b"", b"\x00"]),
    ("_float8", -1, [math.inf, None]),
    ("_date", -1, []),
    ("point", -1, "(1,2)"),
    ("float4", -1, 7.038530691851209e-26),
    ("float4", -1, -math.inf),
    ("_float4", -1, [1.401298464324817e-45, None, 0.10000000149011612]),
    ("_bool", -1, [True, None]),
    ("vector", -1, [0.10000000149011612, -0.0]),
    ("_timestamp", -1, [datetime.datetime(1, 1, 1, 0, 0, 0, 1), None]),
]
TYPES = relation([column(f"c{at}", name, typmod=typmod) for at, (name, typmod, _) in enumerate(VALUES)], name="types")


FORMATS = pytest.mark.parametrize("is_json", [False, True], ids=["avro", "json"])


@pytest.mark.parametrize("is_json", [False, in_variants(True)], ids=["avro", "json"])
@pytest.mark.usefixtures("by_spark")
def test_values_of_every_type_reach_the_lake_by_spark(spark: SparkSession, lake: Path, *, is_json: bool) -> None:
    check_values_of_every_type(spark, lake, replace(TYPES, is_json=is_json))


@FORMATS
def test_values_of_every_type_reach_the_lake_by_the_driver(lake: Path, *, is_json: bool) -> None:
    check_values_of_every_type(None, lake, replace(TYPES, is_json=is_json))


def check_values_of_every_type(spark: SparkSession | None, lake: Path, types: RelationRecord) -> None:
    row = {f"c{at}": value for at, (_, _, value) in enumerate(VALUES)}

    found = head_rows(lake, copied(spark, lake, types, row, {}))

    values, nulls = sorted(found, key=lambda each: each["c0"] is None)
    assert [repr(value) for value in list(values.values())[:-1]] == [_in_lake(value) for *_, value in VALUES]
    assert set(list(nulls.values())[:-1]) == {None}


def _in_lake(value: Any) -> str:
    """As Arrow gives it back: its UTC is a zoneinfo one."""
    return repr(value).replace("datetime.timezone.utc", "zoneinfo.ZoneInfo(key='UTC')")


ITEMS = relation([column("n", "int4")])
LATER = relation([column("n", "int4"), column("m", "int4")])


SEGMENTS = [
    (None, None, [0, 1, 2, 3]),
    (Position(Lsn(LSN), 1), None, [1, 2, 3]),
    (None, Position(Lsn(LSN), 1), [0]),
    (Position(Lsn(LSN), 1), Position(Lsn(LSN + 8), 0), [1]),
    (Position(Lsn(LSN + 8), 0), Position(Lsn(LSN + 8), 0), []),
]


def test_segment_takes_events_from_start_to_before_end(spark: SparkSession) -> None:
    log = Log()
    for n, (lsn, ordinal) in enumerate([(LSN, 0), (LSN, 1), (LSN + 8, 0), (LSN + 8, 1)]):
        log.add(Event(ITEMS, "c", lsn, ordinal, after={"n": n}))
    log.add(Event(ITEMS, "t", LSN, 1))
    log.add(Event(LATER, "c", LSN, 1, after={"n": 9, "m": 9}))
    log.add(Event(relation([column("n", "int4")], name="other"), "c", LSN, 1, after={"n": 8}))

    for start, end, expected in SEGMENTS:
        found = events(log.frame(spark), ITEMS, Segment(0, ITEMS.schema_id, start, end))
        assert sorted(row["offset"] for row in found.toArrow().to_pylist()) == expected, (start, end)
