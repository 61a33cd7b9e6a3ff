"""``walbridge copy``, ``tables`` and ``forget`` beside a running producer."""

from __future__ import annotations

import json

import pytest

from tests.faults.followed import settings_of
from tests.fix_producer import ProducerUnderTest
from tests.wait import wait_until
from walbridge.init import initialise
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.tables.copy import copy
from walbridge.tables.copy_all import copy_all
from walbridge.tables.forget import forget
from walbridge.tables.show import show


@pytest.fixture
def shop(producer: ProducerUnderTest) -> ProducerUnderTest:
    """``items`` is in two schemas; ``aside`` is not published."""
    producer.database.execute(
        "CREATE TABLE orders (id int PRIMARY KEY); INSERT INTO orders SELECT generate_series(1, 2000);"
        "CREATE TABLE items (id int PRIMARY KEY); CREATE SCHEMA other; CREATE TABLE other.items (id int PRIMARY KEY);"
        "CREATE TABLE aside (id int PRIMARY KEY); CREATE TABLE left_it (id int PRIMARY KEY)"
    )
    producer.publish("orders", "items", "other.items", "left_it")
    return producer


def states(settings: Settings) -> dict[str, str]:
    shown: list[str] = []
    assert show(settings, as_json_text=True, say=lambda line: None, out=shown.append) == 0
    return {table["table"]: table["state"] for table in json.loads(shown[0])["tables"]}


def refusal(settings: Settings, name: str) -> OperatorError:
    with pytest.raises(OperatorError) as refused:
        copy(settings, [name], wait=False, say=lambda line: None)
    return refused.value


def test_tables_are_copied_again_shown_and_forgotten_while_the_producer_runs(shop: ProducerUnderTest) -> None:
    shop.settings["producer"] = {"batch_rows_max": 200}
    shop.settings["lake"] = {"path": str(shop.folder / "lake")}
    shop.start().wait_for_log("streaming")
    settings, said = settings_of(shop), list[str]()

    assert states(settings) == dict.fromkeys(
        ("other.items", "public.items", "public.left_it", "public.orders"), "current"
    )
    assert copy(settings, ["orders", "public.orders", "other.items"], wait=True, say=said.append, line_s=0.1) == 0
    assert said[0].startswith("public.orders: asked to be copied again; its changes go on")
    assert said[1].startswith("other.items: asked to be copied again")
    assert {"public.orders: copied, and current", "other.items: copied, and current"} < set(said)
    assert set(states(settings).values()) == {"current"}
    shop.check_equal()

    assert "items may be any of other.items, public.items" in refusal(settings, "items").what
    assert "this pipeline has no table conjured" in refusal(settings, "conjured").what
    with pytest.raises(OperatorError, match="left_it is in publication walbridge") as followed:
        forget(settings, ["left_it"], say=said.append)

    leave, _, then = followed.value.remedy.partition("; ")
    shop.database.execute(leave)
    assert then == "then, once walbridge tables calls it dropped, run walbridge forget again"
    wait_until(lambda: states(settings)["public.left_it"] == "dropped", "the table to be dropped")
    left = refusal(settings, "left_it")
    assert "left_it is not in publication walbridge" in left.what
    said.clear()
    assert forget(settings, ["left_it"], say=said.append) == 0
    assert "forgotten; the lake keeps its rows as they were" in said[0]
    assert f"--delete --topic {shop.name}.public.left_it" in said[1]
    assert len(said) == 2, "nothing is in the lake"
    wait_until(lambda: "public.left_it" not in states(settings), "the table to be forgotten")
    shop.database.execute(left.remedy.partition(";")[0])
    wait_until(lambda: states(settings).get("public.left_it") == "current", "the table to be copied when it is back")
    shop.check_equal()


def test_request_waits_for_a_producer_that_does_not_run(shop: ProducerUnderTest) -> None:
    """It is durable; a copy that is asked for twice is made once."""
    shop.write_settings()
    settings = settings_of(shop)
    none = refusal(settings, "orders")
    assert "has no progress in Kafka" in none.what
    assert none.remedy.startswith("run walbridge init, then walbridge produce; or ")
    initialise(settings, None, lambda line: None)
    shop.start_streaming().stop()
    shop.slot_at_rest()
    said: list[str] = []
    assert [copy(settings, ["orders"], wait=False, say=said.append) for _ in range(2)] == [0, 0]
    assert "walbridge produce does not run now" in said[1]
    running = shop.start_streaming()
    running.wait_for_log("table is copied")
    shop.check_equal()
    assert running.log.count("copy of a table begins") == 1


def test_copy_of_all_tables_tells_programs_whether_it_begins_a_new_epoch(shop: ProducerUnderTest) -> None:
    """Also where the stream could go on: then readers are refused each table until its copy is whole."""
    shop.start_streaming().stop()
    shop.slot_at_rest()
    settings, told = settings_of(shop), list[str]()
    for new_epoch in (False, True):
        assert copy_all(settings, wait=False, say=lambda line: None, out=told.append, new_epoch=new_epoch) == 0
    shop.database.execute(f"SELECT pg_drop_replication_slot('{shop.slot}')")
    assert copy_all(settings, wait=False, say=lambda line: None, out=told.append) == 0

    beside, asked, lost = map(json.loads, told)
    assert [each["new_epoch"] for each in (beside, asked, lost)] == [False, True, True]
    assert [each["stream_lost"] is None for each in (beside, asked, lost)] == [True, True, False]
    assert all(table["asked"] for each in (beside, asked, lost) for table in each["tables"])
