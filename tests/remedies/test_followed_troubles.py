"""What the producer says of one table, done to the letter: ``walbridge copy`` makes each current again (I7, I8)."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.faults.followed import settings_of
from tests.faults.tables.test_unsaid_rows import act
from tests.faults.topic_life import TopicLife
from tests.fix_producer import ProducerUnderTest
from tests.wait import wait_until
from walbridge.schemas.topics import data_topic
from walbridge.tables.copy import copy
from walbridge.tables.read_tables import read_tables

pytestmark = pytest.mark.fault

PARTITIONED = "(id int PRIMARY KEY, v text) PARTITION BY RANGE (id); CREATE TABLE {0}_a PARTITION OF {0} DEFAULT"
FILLED = "INSERT INTO {0} SELECT i, i::text FROM generate_series(1, 5) i"
ALTERED = "ALTER PUBLICATION walbridge"
BACK = f"{ALTERED} DROP TABLE {{0}}; DELETE FROM {{0}} WHERE id = 1; {ALTERED} ADD TABLE {{0}}"


TROUBLES: dict[str, tuple[str, str | Callable[[TopicLife, str], None], str]] = {
    "rewritten": ("(id int PRIMARY KEY, v text)", "ALTER TABLE {0} ALTER v TYPE text USING v || '!'", "was rewritten"),
    "parted": (PARTITIONED, "ALTER TABLE {0} DETACH PARTITION {0}_a", "were attached, detached or dropped"),
    "labelled": (
        "(id int PRIMARY KEY, v text, m mood)",
        "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'",
        "labels or attr",
    ),
    "valued": (
        "(id int PRIMARY KEY, v text)",
        "ALTER TABLE {0} DROP v; ALTER TABLE {0} ADD v text DEFAULT 'new'",
        "got a column with a default, or a column was dropped and added again",
    ),
    "uncertain": (
        "(id int PRIMARY KEY, v text)",
        "ALTER TABLE {0} ADD c int; INSERT INTO {0} VALUES (11, 'new', 11); "
        "ALTER TABLE {0} DROP c; ALTER TABLE {0} ADD c int; INSERT INTO {0} VALUES (12, 'newer', 12)",
        "column c of table public.uncertain came in the stream when the catalogue",
    ),
    "computed": (
        "(id int PRIMARY KEY, v text, g int GENERATED ALWAYS AS (id * 2) STORED)",
        "ALTER TABLE {0} ALTER g DROP EXPRESSION",
        "is none any more, and published since",
    ),
    "away": ("(id int PRIMARY KEY, v text)", BACK, "was taken out of publication walbridge and put back"),
    "grown": ("(id int PRIMARY KEY, v text)", lambda life, topic: life.grow(topic, 2), "its rows were spread over 1"),
    "gone": ("(id int PRIMARY KEY, v text)", lambda life, topic: life.delete(topic), "is gone, and with it the events"),
    "remade": ("(id int PRIMARY KEY, v text)", lambda life, topic: life.remake(topic), "was deleted and made again"),
}


def standings(producer: ProducerUnderTest) -> dict[str, tuple[str, str]]:
    tables = read_tables(settings_of(producer), needs_postgres=True).tables
    return {table.name: (table.progress.state, table.progress.why or "") for table in tables if table.progress}


def test_table_in_any_trouble_is_current_again_once_it_is_copied_as_the_producer_says(
    producer: ProducerUnderTest,
) -> None:
    """Where settings say that it stops, it names the setting that has it go on; else each table says why it is left."""
    execute = producer.database.execute
    execute("CREATE TYPE mood AS ENUM ('ok', 'sad'); CREATE TABLE untouched (id int PRIMARY KEY)")
    for name, (columns, _, _) in TROUBLES.items():
        execute(f"CREATE TABLE {name} {columns.format(name)}; {FILLED.format(name)}")
    execute("UPDATE labelled SET m = 'ok'")
    producer.publish("untouched", *TROUBLES, options="WITH (publish_via_partition_root = true)")
    producer.start_streaming().stop()
    life = TopicLife(producer)
    for name, (_, bring, _) in TROUBLES.items():
        if isinstance(bring, str):
            act(producer, bring.format(name))
        else:
            bring(life, data_topic(producer.name, "public", name))
    producer.settings["producer"] = {"on_table_error": "stop"}
    told = producer.refusal()
    assert any(why in told for _, _, why in TROUBLES.values())
    (setting,) = re.findall(r'where \[producer\] (\w+) is "stop", set it to "copy" instead', told)

    producer.settings["producer"] = {setting: "quarantine"}
    running = producer.start_streaming()
    left = {f"public.{name}": why for name, (_, _, why) in TROUBLES.items()}
    wait_until(lambda: {n for n, (s, _) in standings(producer).items() if s != "current"} == {*left}, "all to be left")
    for name, (state, why) in standings(producer).items():
        assert name == "public.untouched" or (state == "quarantined" and left[name] in why), (name, state, why)
    commands = re.findall(r"walbridge copy (public\.\w+)", running.log)
    assert {*commands} == {*left}
    assert copy(settings_of(producer), [*left], wait=True, say=print) == 0
    execute("INSERT INTO untouched VALUES (1)")
    producer.check_equal()
    running.stop()
