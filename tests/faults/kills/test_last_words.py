"""Why a producer stopped is found afterwards: whatever ended it, and wherever its peers were."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.faults.one_table import make_table
from tests.fix_producer import ProducerUnderTest, refusal_of
from tests.wait import wait_until
from walbridge.program_runs import producer_words
from walbridge.schemas.control.run_record import End, How, LastWords
from walbridge.schemas.settings_file import load_settings
from walbridge.status.words import word_lines

pytestmark = pytest.mark.fault


def heard(producer: ProducerUnderTest) -> LastWords:
    return producer_words(load_settings(str(producer.folder / "walbridge.toml")))


def last_end(words: LastWords) -> End:
    assert words.end is not None
    assert words.end.end is not None
    return words.end.end


def test_status_tells_a_run_a_kill_an_error_and_a_stop(producer: ProducerUnderTest) -> None:
    producer.settings["metrics"] = {"state_dir": str(producer.folder / "state")}
    make_table(producer)
    producer.publish("t")
    killed = producer.start_streaming()
    wait_until(lambda: heard(producer).is_running, "the producer to say that it runs")
    run = heard(producer).run
    assert run is not None
    assert run.pid == killed.process.pid

    killed.kill()
    words = heard(producer)
    assert words.has_died
    assert next(word_lines(words, datetime.now(UTC))).startswith("ended without a word, last heard of at ")

    refused = producer.start_streaming()
    wait_until(lambda: "the last run ended without a word" in refused.log, "the kill to be told")
    wait_until(lambda: heard(producer).end is not None, "the kill to be recorded")
    assert last_end(heard(producer)).how is How.UNSAID
    producer.database.execute("DROP PUBLICATION walbridge; INSERT INTO t VALUES (1000)")
    said, _, mends = refusal_of(refused).partition("\nremedy: ")
    words = heard(producer)
    assert not words.is_running
    assert (last_end(words).how, last_end(words).exit_code) == (How.REFUSED, 2)
    assert (f"error: {last_end(words).what}", last_end(words).remedy) == (said, mends.strip())
    # Kafka has a second and a half to take it. On a busy machine the end may stay here until the next start, told so.
    is_left = bool(list((producer.folder / "state").iterdir()))
    assert is_left == ("its end is not recorded but on this machine" in refused.log)


def test_end_is_told_on_its_machine_while_kafka_is_away_and_to_kafka_at_the_next_start(
    producer: ProducerUnderTest,
) -> None:
    producer.settings["metrics"] = {"state_dir": str(producer.folder / "state")}
    make_table(producer)
    producer.publish("t")
    producer.start_streaming().stop()
    there = dict(producer.settings)
    producer.settings["postgres"] = {"start_timeout_s": 1}  # of this start alone: on a busy machine none is so quick
    producer.kafka.kill()
    try:
        refusal = producer.refusal()

        assert f"Kafka at {producer.kafka.bootstrap_servers} cannot be reached" in refusal
        words = heard(producer)
        assert last_end(words).what is not None
        assert str(last_end(words).what) in refusal
    finally:
        producer.kafka.start()
    producer.settings = there
    running = producer.start_streaming()
    assert "the last run here ended, and its peer could not be told" in running.log
    wait_until(lambda: not list((producer.folder / "state").iterdir()), "Kafka to be told")
    assert last_end(heard(producer)) == last_end(words)
    running.stop()
    assert last_end(heard(producer)).how is How.STOPPED
