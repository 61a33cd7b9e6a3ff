"""Copies beside the stream, with Kafka, Spark and Delta: what readers see before they end, and after.

Where the driver folds, ``in_memory/test_copies_in_memory.py`` has many more of them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.contract_events import copied, copy_begin, copy_end
from tests.contract_writer import ColumnSpec, ContractWriter, Event
from tests.spark_consumer.accounts import Run, newest, rows
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.read import tables_at

ITEM = [ColumnSpec("id", "int4", is_key=True), ColumnSpec("body"), ColumnSpec("n", "int4")]
BAG = [ColumnSpec("n", "int4")]


@pytest.fixture
def items(writer: ContractWriter) -> RelationRecord:
    return writer.relation("items", ITEM, relation_id=3, partitions=2)


@pytest.fixture
def bag(writer: ContractWriter) -> RelationRecord:
    return writer.relation("bag", BAG, relation_id=4, replica_identity="f")


def states(lake: Path) -> dict[str, str]:
    return {entry.name: entry.state for entry in newest(lake).tables}


def item(key: int, body: str, n: int) -> dict[str, Any]:
    return {"id": key, "body": body, "n": n}


def begin(writer: ContractWriter, of: RelationRecord, lsn: int) -> None:
    marker, barrier = copy_begin(of, lsn)
    writer.send([marker], barriers=[barrier], end_lsn=lsn)


def end(writer: ContractWriter, of: RelationRecord, lsn: int, *last: dict[str, Any]) -> None:
    marker, barrier = copy_end(of, lsn)
    writer.send([*copied(of, lsn, *last), marker], barriers=[barrier], end_lsn=lsn)


@pytest.mark.variant(of="test_a_table_is_fed_and_published_with_all_others_while_a_copy_of_it_is_written")
@pytest.mark.usefixtures("by_spark")
def test_a_table_is_copied_while_the_others_are_published(
    spark: SparkSession, writer: ContractWriter, history: RelationRecord, items: RelationRecord, run: Run, lake: Path
) -> None:
    """I6, I8: rows and changes in turn, one of them of a row that is read later, one from a range that is not read."""
    writer.copy([(history, [])])
    begin(writer, items, 0x2000)
    writer.send(
        [
            Event(items, "u", 0x2100, 0, after={"id": 5, "n": 50}, unchanged=["body"]),
            Event(history, "c", 0x2100, 1, after={"id": 5, "delta": 1}),
        ]
    )
    run()
    assert states(lake) == {"history": "current", "items": "copying"}
    assert set(tables_at(spark, str(lake))) == {"public.history"}
    assert rows(lake, "history") == [(5, 1)]
    with pytest.raises(OperatorError, match=r"public.items is being copied"):
        tables_at(spark, str(lake), tables=["public.items"])

    writer.send(copied(items, 0x2200, item(1, "one", 1), item(2, "two", 2), item(4, "four", 4)), end_lsn=0x2200)
    moved = Event(items, "d", 0x2300, 1, before={"id": 6}, before_image="key")
    writer.send(
        [
            Event(items, "u", 0x2300, 0, after={"id": 1, "n": 10}, unchanged=["body"]),
            moved,
            replace(moved, op="c", ordinal=2, after={"id": 3, "n": 6}, unchanged=["body"]),
            Event(items, "d", 0x2300, 3, before={"id": 4}, before_image="key"),
        ]
    )
    run()
    assert newest(lake).end_lsn == writer.end_lsn

    end(writer, items, 0x2400, item(5, "five", 50), item(3, "six", 6))
    writer.send([Event(items, "u", 0x2500, 0, after={"id": 5, "n": 51}, unchanged=["body"])])
    run()
    assert states(lake) == {"history": "current", "items": "current"}
    assert rows(lake, "items") == [(1, "one", 10), (2, "two", 2), (3, "six", 6), (5, "five", 51)]


@pytest.mark.soak
@pytest.mark.usefixtures("by_spark")
def test_a_table_that_is_copied_again_is_fed_until_its_copy_takes_its_place(
    writer: ContractWriter, items: RelationRecord, run: Run, lake: Path
) -> None:
    """I8: what the copy did not name is gone with it."""
    writer.copy([(items, [item(1, "one", 1), item(2, "never there", 2)])])
    begin(writer, items, 0x2000)
    writer.send(copied(items, 0x2100, item(1, "really one", 1)), end_lsn=0x2100)
    writer.send([Event(items, "u", 0x2200, 0, after={"id": 1, "n": 11}, unchanged=["body"])])
    writer.send([Event(items, "c", 0x2210, 0, after=item(9, "nine", 9))])
    run()
    assert states(lake) == {"items": "current"}
    assert rows(lake, "items") == [(1, "one", 11), (2, "never there", 2), (9, "nine", 9)]

    end(writer, items, 0x2300)
    run()
    assert rows(lake, "items") == [(1, "really one", 11), (9, "nine", 9)]


@pytest.mark.variant(of="test_a_table_is_fed_and_published_with_all_others_while_a_copy_of_it_is_written")
def test_a_table_without_a_key_is_not_current_until_its_copy_takes_its_place(
    writer: ContractWriter, bag: RelationRecord, run: Run, lake: Path
) -> None:
    """I8: its changes wait until its rows are read. Equal rows are as many as they were."""
    writer.copy([(bag, [{"n": 1}])])
    run()
    begin(writer, bag, 0x2000)
    run()
    assert states(lake) == {"bag": "copying"}

    writer.send(copied(bag, 0x2100, {"n": 2}, {"n": 2}, {"n": 3}), end_lsn=0x2100)
    run()
    writer.send([Event(bag, "d", 0x2110, 0, before={"n": 2}, before_image="full")])
    end(writer, bag, 0x2200)
    writer.send([Event(bag, "u", 0x2210, 0, before={"n": 3}, before_image="full", after={"n": 4})])
    run()
    assert states(lake) == {"bag": "current"}
    assert rows(lake, "bag") == [(2,), (4,)]
