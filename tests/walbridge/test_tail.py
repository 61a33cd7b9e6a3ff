"""``walbridge tail`` prints what a reader of the topic needs to know of each event, and ends quietly."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fix_postgres import new_database
from tests.fix_producer import ROOT, ProducerUnderTest
from tests.spark_consumer.events import column, relation
from walbridge.__main__ import main
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import PostgresServer
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Position
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import load_settings
from walbridge.tail import MESSAGES, Beginning, parse_position, tail, topic_of

WHERE = ("position", "commit_time", "xid", "partition", "offset", "table")
ROWS = 60

# Each statement is a transaction of its own, so markers lie between the events.
CHANGES = (
    "INSERT INTO orders VALUES (1, 'NaN', repeat('x', 9000), '{1,NULL}', '\\xff00', 'infinity', 'NaN', '2024-02-29')",
    "UPDATE orders SET amount = 5 WHERE id = 1",
    "UPDATE orders SET id = 2 WHERE id = 1",
    "DELETE FROM orders WHERE id = 2",
    "TRUNCATE orders",
)


@pytest.fixture(scope="module")
def orders(postgres: PostgresServer, kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A producer that is running, with changes of every kind in a topic of two partitions."""
    folder = tmp_path_factory.mktemp("tail")
    with new_database(postgres) as database:
        name = database.name.replace("test_", "tail")
        producer = ProducerUnderTest(
            name, database, kafka, folder, {"topics": {"partitions": 2}, "postgres": {"messages": True}}
        )
        database.execute(
            "CREATE TABLE orders (id int PRIMARY KEY, amount numeric(10,2), note text, parts int[], raw bytea, "
            "at timestamptz, ratio float8, day date); ALTER TABLE orders ALTER note SET STORAGE EXTERNAL;"
            "CREATE TABLE keyless (a int, b text); CREATE TABLE numbers (id int PRIMARY KEY);"
            "ALTER TABLE keyless REPLICA IDENTITY FULL"
        )
        producer.publish("orders", "keyless", "numbers")
        try:
            producer.start_streaming()
            for statement in (
                *CHANGES,
                "INSERT INTO keyless VALUES (1, 'a')",
                "UPDATE keyless SET b = NULL",
                *(f"INSERT INTO numbers VALUES ({number})" for number in range(ROWS)),
                "SELECT pg_logical_emit_message(false, 'app', 'é')",
                "SELECT pg_logical_emit_message(true, 'app', '\\x00ff'::bytea)",
            ):
                database.execute(statement)
            with producer.topics() as topics:
                producer.caught_up(topics)
            yield producer
        finally:
            producer.kill_all()


@pytest.fixture
def settings(orders: ProducerUnderTest) -> Settings:
    return load_settings(config_of(orders))


def config_of(producer: ProducerUnderTest) -> Path:
    return producer.folder / "walbridge.toml"


def printed(
    settings: Settings, capsys: pytest.CaptureFixture[str], table: str, beginning: Beginning
) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert tail(settings, table, beginning, follow=False, say=lambda line: None) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def without_place(event: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name not in WHERE}


def test_events_are_readable_values_that_were_not_sent_and_all(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {
        "id": 1,
        "amount": "NaN",
        "note": "x" * 9000,
        "parts": [1, None],
        "raw": "\\xff00",
        "at": "infinity",
        "ratio": "NaN",
        "day": "2024-02-29",
    }
    kept = {name: value for name, value in row.items() if name != "note"} | {"amount": "5.00"}

    events = printed(settings, capsys, "public.orders", Beginning(last=7))

    assert [without_place(event) for event in events] == [
        {"op": "insert", "key": {"id": 1}, "after": row, "exceptional": ["amount", "at"]},
        {"op": "update", "key": {"id": 1}, "after": kept, "unchanged": ["note"], "exceptional": ["at"]},
        {"op": "delete", "key": {"id": 1}, "new_key": {"id": 2}, "before": {"id": 1}},
        {
            "op": "insert",
            "key": {"id": 2},
            "old_key": {"id": 1},
            "before": {"id": 1},
            "after": kept | {"id": 2},
            "unchanged": ["note"],
            "exceptional": ["at"],
        },
        {"op": "delete", "key": {"id": 2}, "before": {"id": 2}},
        {"op": "truncate"},
        {"op": "truncate"},  # one in each partition
    ]


def test_old_row_is_shown_whole_where_postgres_sent_it_whole(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    (event,) = printed(settings, capsys, "keyless", Beginning(last=1))

    assert without_place(event) == {"op": "update", "before": {"a": 1, "b": "a"}, "after": {"a": 1, "b": None}}


def test_logical_messages_are_shown_by_prefix_and_content(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """As text, where the content is some; the pipeline sends them, as one that has none is told to."""
    with pytest.raises(OperatorError, match="no logical message of this pipeline is in Kafka yet") as none:
        tail(settings.model_copy(update={"name": "nobody"}), MESSAGES, Beginning(), follow=False, say=print)
    assert none.value.remedy == "set messages = true in [postgres], and run walbridge produce"
    assert settings.postgres.messages
    outside, inside = printed(settings, capsys, MESSAGES, Beginning(last=2))

    assert without_place(outside) == {"op": "message", "prefix": "app", "content": "é"}
    assert without_place(inside) == {"op": "message", "prefix": "app", "content": "\\x00ff"}
    assert ("xid" in outside, "xid" in inside) == (False, True)
    assert printed(settings, capsys, MESSAGES, Beginning(parse_position(outside["position"]))) == [outside, inside]


@pytest.mark.parametrize("arguments", [["tail"], ["tail", "public.orders", "--messages"]])
def test_tail_is_of_one_table_or_of_messages(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "name a table, or say --messages" in " ".join(capsys.readouterr().err.split())


def test_partitions_are_merged_by_position_from_the_copy_on(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    events = printed(settings, capsys, "numbers", Beginning(parse_position("0/0")))

    assert [event["op"] for event in events] == ["copy begins"] * 2 + ["insert"] * ROWS
    assert [event["key"]["id"] for event in events[2:]] == list(range(ROWS))
    assert {event["partition"] for event in events} == {0, 1}


@pytest.mark.parametrize("begin", [0, 1, ROWS // 2, ROWS - 1])
def test_position_as_printed_is_where_a_later_tail_begins(
    settings: Settings, capsys: pytest.CaptureFixture[str], begin: int
) -> None:
    inserted = printed(settings, capsys, "numbers", Beginning(last=ROWS))

    later = printed(settings, capsys, "numbers", Beginning(parse_position(inserted[begin]["position"])))

    assert later == inserted[begin:]


def test_position_beyond_the_end_prints_nothing(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(settings, capsys, "numbers", Beginning(parse_position("FFFFFFFF/0"))) == []


@pytest.mark.parametrize("count", [0, 1, 7])
def test_last_events_are_the_last_over_all_partitions(
    settings: Settings, capsys: pytest.CaptureFixture[str], count: int
) -> None:
    events = printed(settings, capsys, "numbers", Beginning(last=count))

    assert [event["key"]["id"] for event in events] == list(range(ROWS - count, ROWS))


def test_following_goes_on_with_what_comes_also_in_a_new_shape_until_ctrl_c(orders: ProducerUnderTest) -> None:
    with started(orders, "keyless", "--follow", "--last", "1") as following:
        assert following.stdout is not None
        assert following.stderr is not None
        first = json.loads(following.stdout.readline())
        orders.database.execute("ALTER TABLE keyless ADD c int; INSERT INTO keyless VALUES (7, 'b', 3)")
        second = json.loads(following.stdout.readline())
        following.send_signal(signal.SIGINT)

        assert (following.wait(60), following.stderr.read()) == (0, "")
    assert (first["op"], second["after"]) == ("update", {"a": 7, "b": "b", "c": 3})


@pytest.mark.variant(of="test_following_goes_on_with_what_comes_also_in_a_new_shape_until_ctrl_c")
def test_reader_that_has_enough_ends_it_quietly(orders: ProducerUnderTest) -> None:
    with started(orders, "numbers", "--from", "0/0") as printing:
        assert printing.stdout is not None
        assert printing.stderr is not None
        printing.stdout.close()

        assert (printing.wait(60), printing.stderr.read()) == (0, "")


def test_unknown_table_is_answered_with_those_that_exist(
    orders: ProducerUnderTest, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tail", "public.order", "--config", str(config_of(orders))]) == 2

    assert capsys.readouterr().err == (
        "error: this pipeline has no table public.order\n"
        "remedy: name one of its tables: public.keyless, public.numbers, public.orders\n"
    )


def test_pipeline_without_a_copy_has_no_tables_yet(kafka: KafkaBroker, pipeline_name: str) -> None:
    settings = Settings.model_validate({"name": pipeline_name, "kafka": {"bootstrap_servers": kafka.bootstrap_servers}})

    with pytest.raises(OperatorError) as refusal:
        tail(settings, "orders", Beginning(), follow=False, say=lambda line: None)
    assert refusal.value.remedy == "run walbridge produce: it has not begun its first copy"


def test_broker_that_is_away_is_the_operators_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walbridge.tail.ANSWER_S", 0.1)
    settings = Settings.model_validate({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})

    with pytest.raises(OperatorError, match="cannot be reached"):
        tail(settings, "orders", Beginning(), follow=False, say=lambda line: None)


@pytest.mark.parametrize(
    ("text", "position"), [("16/B374D848", (0x16B374D848, -1)), ("0/1/0", (1, 0)), ("0/1/-1", (1, -1))]
)
def test_position_is_an_lsn_with_or_without_ordinal(text: str, position: tuple[int, int]) -> None:
    assert parse_position(text) == Position(*position)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "16", "0/1/", "0/1/x", "x/1", "0/123456789"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(OperatorError, match="is no position"):
        parse_position(text)


def started(producer: ProducerUnderTest, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "walbridge", "tail", *arguments, "--config", str(config_of(producer))]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_renamed_table_is_found_by_each_name_that_no_other_one_has_now() -> None:
    """``t`` became ``u`` and another table became ``t``; a table that is gone was called ``v``."""
    first, second = ([column("id", "int4", is_key=True)] for _ in range(2))
    known = [
        replace(relation(first, name="t", relation_id=1), topic="p.t"),
        replace(relation(second, name="t_new", relation_id=2), topic="p.t_new"),
        replace(relation(first, name="u", relation_id=1), topic="p.t"),
        replace(relation(second, name="t", relation_id=2), topic="p.t_new"),
        replace(relation(first, name="v", relation_id=3), topic="p.v"),
    ]

    found = {name: topic_of(name, known) for name in ("public.t", "u", "t_new", "v")}
    assert found == {"public.t": "p.t_new", "u": "p.t", "t_new": "p.t_new", "v": "p.v"}
