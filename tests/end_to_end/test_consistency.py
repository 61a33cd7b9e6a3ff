"""What is published is one state of the source: over tables, in the middle of writes, after kills."""

from __future__ import annotations

import threading

import pyarrow.compute as pc
from deltalake import DeltaTable

from tests.fix_pipeline import PipelineUnderTest
from walbridge.spark_consumer.plan.manifest_row import TableEntry
from walbridge.spark_consumer.read import tables_at

COLUMNS = {"left_accounts": "balance", "right_accounts": "balance", "transfers": "amount"}
PAUSE_S = 0.005
TRANSFER = """
    DO $$ DECLARE amount int := 1 + {step} % 7; BEGIN
      UPDATE left_accounts SET balance = balance - amount WHERE id = {step} % 10;
      UPDATE right_accounts SET balance = balance + amount WHERE id = {step} % 10;
      INSERT INTO transfers VALUES ({step}, amount);
    END $$
"""


def test_a_transaction_over_several_tables_is_never_seen_in_halves(pipeline: PipelineUnderTest) -> None:
    """I8: at every published cut the balances add up, while transfers go on."""
    database = pipeline.database
    database.execute("""
        CREATE TABLE left_accounts (id int PRIMARY KEY, balance int);
        CREATE TABLE right_accounts (id int PRIMARY KEY, balance int);
        CREATE TABLE transfers (id int, amount int);
        INSERT INTO left_accounts SELECT i, 1000 FROM generate_series(0, 9) i;
        INSERT INTO right_accounts SELECT i, 1000 FROM generate_series(0, 9) i;
    """)
    pipeline.producer.publish("left_accounts", "right_accounts", "transfers")
    pipeline.producer.start_streaming()
    stop = threading.Event()

    def transfer() -> None:
        with database.connect() as connection:
            step = 0
            while not stop.wait(PAUSE_S):
                connection.execute(TRANSFER.format(step=step))
                step += 1

    writer = threading.Thread(target=transfer)
    writer.start()
    try:
        for _ in range(4):
            pipeline.materialize()
    finally:
        stop.set()
        writer.join()
    pipeline.check_equal()

    cuts = pipeline.published()
    assert len({cut.end_lsn for cut in cuts}) >= 3
    for cut in cuts:
        sums = {entry.name: _sum(pipeline, entry) for entry in cut.tables}
        _check_balances(sums["left_accounts"], sums["right_accounts"], sums["transfers"])
    # As readers see it, whom Spark costs a second a cut.
    tables = tables_at(pipeline.spark, str(pipeline.lake), cuts[len(cuts) // 2].end_lsn)
    left, right, moved = (
        tables[f"public.{name}"].selectExpr(f"coalesce(sum({column}), 0)").collect()[0][0]
        for name, column in COLUMNS.items()
    )
    _check_balances(left, right, moved)


def _sum(pipeline: PipelineUnderTest, entry: TableEntry) -> int:
    table = DeltaTable(f"{pipeline.lake}/{entry.path}", version=entry.version)
    column = COLUMNS[entry.name]
    return int(pc.sum(table.to_pyarrow_table(columns=[column])[column]).as_py() or 0)


def _check_balances(left: int, right: int, moved: int) -> None:
    assert left + right == 20_000
    assert right - 10_000 == moved


def test_twenty_tables_are_published_together(pipeline: PipelineUnderTest) -> None:
    database = pipeline.database
    names = [f"t{i}" for i in range(20)]
    for name in names:
        database.execute(
            f"CREATE TABLE {name} (id int PRIMARY KEY, v int); INSERT INTO {name} SELECT i, 0 "
            "FROM generate_series(1, 100) i"
        )
    pipeline.producer.publish(*names)
    pipeline.producer.start_streaming()
    pipeline.check_equal()
    with database.connect() as connection, connection.transaction():
        for name in names:
            connection.execute(f"UPDATE {name} SET v = 1 WHERE id <= 50")
    pipeline.check_equal()
    newest = pipeline.published()[-1]
    assert len(newest.tables) == 20


def test_a_transaction_larger_than_a_plan_is_published_whole(pipeline: PipelineUnderTest) -> None:
    """I8, I9: it crosses several Kafka transactions and several plans; no cut shows a part of it."""
    database = pipeline.database
    pipeline.plan_rows_max = 3_000
    pipeline.producer.settings = {"producer": {"batch_rows_max": 1_000}}
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (0, 'first')")
    pipeline.producer.publish("t")
    pipeline.producer.start_streaming()
    pipeline.check_equal()
    with database.connect() as connection, connection.transaction():
        connection.execute("INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 12000) i")
        connection.execute("UPDATE t SET v = 'u' WHERE id % 3 = 0")
        connection.execute("DELETE FROM t WHERE id % 5 = 0")
    pipeline.check_equal()
    final = len(pipeline.contents("t"))
    counts = [
        tables_at(pipeline.spark, str(pipeline.lake), cut.end_lsn)["public.t"].count() for cut in pipeline.published()
    ]
    assert set(counts) == {1, final}
