"""``walbridge status`` beside real servers: it says where each stands, and disturbs nobody."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fix_pipeline import PipelineUnderTest
from tests.fix_producer import ROOT, ProducerUnderTest
from tests.wait import wait_until
from walbridge.init import initialise
from walbridge.schemas.position import parse_lsn
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import load_settings
from walbridge.status import status
from walbridge.status.json_object import as_json
from walbridge.status.read_status import read_status

SECTIONS = {"pipeline", "at", "server", "slot", "producer", "kafka", "lake", "programs", "lag"}


@pytest.fixture
def orders(producer: ProducerUnderTest) -> ProducerUnderTest:
    producer.database.execute("CREATE TABLE orders (id int PRIMARY KEY); INSERT INTO orders VALUES (1), (2)")
    producer.publish("orders")
    return producer


def settings_of(producer: ProducerUnderTest, **sections: Any) -> Settings:
    values = {
        "name": producer.name,
        "postgres": {"dsn": producer.database.dsn, "slot": producer.slot},
        "kafka": {"bootstrap_servers": producer.kafka.bootstrap_servers},
        "lake": {"path": str(producer.folder / "lake")},
    }
    return Settings.model_validate(values | sections)


def seen(settings: Settings) -> dict[str, Any]:
    return as_json(read_status(settings))


def test_running_pipeline_shows_slot_cuts_tables_and_no_lag(pipeline: PipelineUnderTest) -> None:
    pipeline.database.execute("CREATE TABLE orders (id int PRIMARY KEY); INSERT INTO orders VALUES (1), (2)")
    pipeline.producer.publish("orders")
    running = pipeline.producer.start_streaming()
    pipeline.catch_up()

    shown = seen(pipeline.settings)

    assert shown.keys() == SECTIONS
    assert shown["producer"] == {"reachable": True, "state": "streaming", "left_out": [], "copying": []}
    assert (shown["slot"]["active"], shown["slot"]["wal_status"]) == (True, "reserved")
    published = pipeline.published()[-1]
    assert (shown["lake"]["cut"]["id"], parse_lsn(shown["lake"]["cut"]["lsn"])) == (published.to_cut, published.end_lsn)
    assert [(table["table"], table["state"]) for table in shown["lake"]["tables"]] == [("public.orders", "current")]
    assert shown["kafka"]["cut"]["id"] >= published.to_cut
    # Other tests write WAL to the same server; idle cuts follow it a moment later.
    wait_until(lambda: seen(pipeline.settings)["lag"]["kafka"]["s"] < 5, "a lag of seconds at most")
    # A second transactional instance would have fenced the first.
    pipeline.database.execute("INSERT INTO orders VALUES (3)")
    pipeline.producer.check_equal()
    assert running.process.poll() is None


def test_stopped_producer_shows_what_its_slot_holds_back_and_how_old_it_is(orders: ProducerUnderTest) -> None:
    settings = settings_of(orders)
    running = orders.start_streaming()
    with orders.topics() as topics:
        orders.caught_up(topics)
    running.stop()
    orders.database.execute("INSERT INTO orders SELECT generate_series(10, 2000)")
    wait_until(lambda: not seen(settings)["slot"]["active"], "the server to notice that the producer left")

    before, after = seen(settings), seen(settings)

    assert before["slot"]["retained_bytes"] > 100_000
    assert before["lag"]["kafka"]["bytes"] > 100_000
    assert before["lag"]["kafka"]["s"] < after["lag"]["kafka"]["s"]
    assert before["lag"]["lake"] == {"bytes": None, "s": None}
    assert (before["producer"]["state"], before["kafka"]["cut"]) == ("streaming", after["kafka"]["cut"])


def test_pipeline_that_was_only_initialised_is_shown_as_such(orders: ProducerUnderTest) -> None:
    settings = settings_of(orders)
    nothing = seen(settings)
    initialise(settings, "reader", lambda line: None)

    shown = seen(settings)

    assert (nothing["slot"]["exists"], nothing["producer"]["state"]) == (False, None)
    assert (shown["slot"]["exists"], shown["slot"]["active"], shown["producer"]["state"]) == (True, False, "creating")
    assert (shown["kafka"]["cut"], shown["lake"]["exists"]) == (None, False)


def test_broker_that_is_away_hides_no_other_section(orders: ProducerUnderTest) -> None:
    settings = settings_of(orders, kafka={"bootstrap_servers": "127.0.0.1:1"})

    shown = seen(settings)

    assert (shown["kafka"]["reachable"], shown["server"]["reachable"]) == (False, True)
    assert "cannot be reached" in shown["kafka"]["reason"]


def test_nobody_answers_is_said_in_every_section_and_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings.model_validate(
        {
            "postgres": {"dsn": "host=127.0.0.1 port=1 dbname=d user=u password=hunter2"},
            "kafka": {"bootstrap_servers": "127.0.0.1:1"},
            "lake": {"path": str(tmp_path / "lake")},
        }
    )

    assert status(settings, watch=False, interval_s=1, as_json_lines=False) == 2
    shown = capsys.readouterr().out
    assert shown.count("unreachable") == 2
    assert "hunter2" not in shown  # I10


def test_watch_prints_one_object_a_look_until_ctrl_c(orders: ProducerUnderTest) -> None:
    orders.start_streaming().stop()
    config = orders.folder / "walbridge.toml"
    assert load_settings(config).name == orders.name
    command = [sys.executable, "-m", "walbridge", "status", "--config", str(config), "--watch", "--json"]
    with subprocess.Popen(
        [*command, "--interval", "0.1"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        looks = [json.loads(watching.stdout.readline()) for _ in range(2)]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 0
        assert watching.stderr.read() == ""
    assert [look.keys() for look in looks] == [SECTIONS, SECTIONS]
    assert looks[0]["at"] < looks[1]["at"]
