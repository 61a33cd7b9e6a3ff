"""``walbridge tables --long``: which engine last wrote a table of the lake, and why."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark_consumer.apply.test_appliers import ITEMS, event, three
from tests.spark_consumer.events import changed
from tests.walbridge.tables.test_copy_words import CURRENT, known, pipeline_tables
from walbridge.spark_consumer.apply.appliers import Appliers
from walbridge.spark_consumer.plan.plan import TableHead
from walbridge.tables.last_writer import last_writer
from walbridge.tables.table_status import LakeEntry, LastWriter, lines, table_statuses


def writer_of(lake: Path, head: TableHead) -> LastWriter:
    found = last_writer(f"{lake}/{head.path}", head.version, {})
    assert found is not None
    return found


@pytest.mark.variant(of="test_tables_are_copied_again_shown_and_forgotten_while_the_producer_runs")
def test_who_wrote_a_published_version_and_why_is_in_the_tables_log(lake: Path, spark: SparkSession) -> None:
    copied = three(lake)
    assert writer_of(lake, copied) == LastWriter("local", "WRITE", None, has_vectors=False)

    merged = changed(
        None, lake, copied, event("u", 0, id=1, body="x", n=7), to_cut=2, appliers=Appliers("spark", spark)
    )
    by_spark = writer_of(lake, merged)
    assert by_spark == LastWriter("spark", "MERGE", by_spark.rewrite_bytes, has_vectors=True)
    assert by_spark.rewrite_bytes
    assert last_writer(f"{lake}/nowhere", 1, {}) is None


def test_a_line_says_who_wrote_and_why() -> None:
    writer = LastWriter("spark", "MERGE", 512_000_000, has_vectors=True)
    relation_id = ITEMS.table.relation_id
    table = known("public.t", relation_id, CURRENT)
    entry = LakeEntry(relation_id, "current", "public/t", 7, writer=writer)

    (line,) = lines(table_statuses(pipeline_tables(table), {relation_id: entry}), lake_is_known=True)

    assert line.endswith("lake public/t version 7, merge by spark (delta-rs rewrites 512 MB), deletion vectors")
