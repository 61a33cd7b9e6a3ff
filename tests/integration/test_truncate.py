"""TRUNCATE: one event in every partition of each table, and a barrier."""

from __future__ import annotations

from tests.fix_producer import ProducerUnderTest


def test_truncate_empties_every_table_it_names_or_cascades_to(producer: ProducerUnderTest) -> None:
    execute = producer.database.execute
    execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a)")
    execute(
        "CREATE TABLE c (v text); INSERT INTO a VALUES (1); INSERT INTO b VALUES (1, 1); INSERT INTO c VALUES ('c')"
    )
    producer.publish("a", "b", "c")
    producer.start_streaming()
    execute("INSERT INTO a VALUES (2); TRUNCATE a CASCADE; INSERT INTO a VALUES (3); TRUNCATE c; TRUNCATE c")
    execute("INSERT INTO c VALUES ('new'); TRUNCATE b RESTART IDENTITY")
    replayed = producer.check_equal()
    assert [len(replayed.rows("public", name)) for name in "abc"] == [1, 0, 1]
    with producer.topics() as topics:
        events = [event for cut in topics.cuts() for event in topics.events(cut)]
    told = [event.headers for event in events if event.op == "t" and event.position.ordinal >= 0]
    options = [b"cascade", b"cascade", b"", b"", b"restart_identity"]
    assert sorted(each["walbridge.truncate"] for each in told) == sorted(options)


def test_truncate_comes_in_every_partition_and_keys_stay_in_theirs(producer: ProducerUnderTest) -> None:
    """I3, and the truncate's order for whoever reads one partition only."""
    producer.settings["topics"] = {"partitions": 3}
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY, v int DEFAULT 0); INSERT INTO t SELECT generate_series(1, 30)")
    producer.publish("t")
    producer.start_streaming()
    execute("UPDATE t SET v = 1; TRUNCATE t; INSERT INTO t SELECT generate_series(1, 30); UPDATE t SET v = 2")
    producer.check_equal()
    with producer.topics() as topics:
        cuts = topics.cuts()
        events = [event for cut in cuts for event in topics.events(cut)]
    truncates = [event for event in events if event.op == "t" and event.position.ordinal >= 0]
    assert sorted(event.partition for event in truncates) == [0, 1, 2]
    assert {event.position for event in truncates} == {truncates[0].position}
    barriers = [barrier for cut in cuts for table in cut.tables for barrier in table.barriers]
    assert [b.position for b in barriers if b.kind == "truncate"] == [truncates[0].position]
    partitions_of: dict[bytes, set[int]] = {}
    for event in events:
        if event.key is not None:
            partitions_of.setdefault(event.key, set()).add(event.partition)
    assert len(partitions_of) == 30
    assert all(len(partitions) == 1 for partitions in partitions_of.values())
    assert set.union(*partitions_of.values()) == {0, 1, 2}
    for partition in range(3):
        positions = [e.position for e in sorted(events, key=lambda e: e.offset) if e.partition == partition]
        assert positions == sorted(positions)


def test_more_truncates_in_a_transaction_than_a_cut_may_hold_split_it(producer: ProducerUnderTest) -> None:
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    producer.publish("t")
    producer.start_streaming()
    producer.database.execute("INSERT INTO t VALUES (1);" + "TRUNCATE t; INSERT INTO t VALUES (1);" * 20)
    producer.check_equal()
    with producer.topics() as topics:
        most = max(len(table.barriers) for cut in topics.cuts() for table in cut.tables)
    assert most < 16
