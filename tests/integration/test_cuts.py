"""Cuts: what a reader may believe of them, checked record by record."""

from __future__ import annotations

from tests.fix_producer import ProducerUnderTest


def test_cuts_name_exactly_the_records_that_their_positions_say(producer: ProducerUnderTest) -> None:
    """Chain, ranges, counts and schema ids; every range is readable and holds its cut's transactions only."""
    producer.settings["topics"] = {"partitions": 3}
    producer.settings["producer"] = {"batch_rows_max": 25}
    execute = producer.database.execute
    execute("CREATE TABLE a (id int PRIMARY KEY, v text); CREATE TABLE b (v text)")
    producer.publish("a", "b")
    producer.start_streaming()
    for i in range(30):
        execute(f"INSERT INTO a SELECT {i} * 10 + j FROM generate_series(1, 9) j; INSERT INTO b VALUES ('{i}')")
        execute(f"UPDATE a SET v = 'x' WHERE id = {i} * 10 + 1; DELETE FROM a WHERE id = {i} * 10 + 2")
    producer.check_equal()
    with producer.topics() as topics:
        cuts = topics.cuts()
        last_position = None
        for cut in cuts[1:]:
            events = topics.events(cut)
            assert all(cut.previous_end_lsn <= event.position.commit_lsn < cut.end_lsn for event in events)
            assert sorted({event.relation.schema_id for event in events}) == sorted(
                {schema_id for table in cut.tables for schema_id in table.schema_ids}
            )
            if events:
                assert last_position is None or last_position < events[0].position
                last_position = events[-1].position
                assert cut.commit_lsn == last_position.commit_lsn
        commits = {e.position.commit_lsn for cut in cuts for e in topics.events(cut) if e.position.ordinal >= 0}
        assert sum(cut.transactions for cut in cuts) == len(commits) == 60
        metadata_end = max(cut.metadata_end_offset for cut in cuts)
        assert metadata_end == len(topics.relations())


def test_events_carry_what_debezium_readers_expect(producer: ProducerUnderTest) -> None:
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    producer.publish("t")
    producer.start_streaming()
    with producer.database.connect() as connection, connection.transaction():
        xid = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
        connection.execute("INSERT INTO t VALUES (2)")
    producer.check_equal()
    with producer.topics() as topics:
        events = [event for cut in topics.cuts() for event in topics.events(cut)]
    copied = next(event for event in events if event.op == "r")
    inserted = next(event for event in events if event.op == "c")
    assert xid == (inserted.source["txId"],)
    names = {name: inserted.source[name] for name in ("connector", "name", "db", "schema", "table", "snapshot")}
    assert names == {
        "connector": "walbridge",
        "name": producer.name,
        "db": producer.database.name,
        "schema": "public",
        "table": "t",
        "snapshot": "false",
    }
    assert (copied.source["snapshot"], copied.source["txId"], copied.position.ordinal) == ("last", None, -1)
    assert copied.position.commit_lsn <= inserted.position.commit_lsn
    assert inserted.source["ts_us"] // 1000 == inserted.source["ts_ms"]
