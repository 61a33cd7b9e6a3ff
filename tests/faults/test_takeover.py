"""A second producer of a slot takes it over, and the first ends: exit code 2, what and how in one clear message."""

from __future__ import annotations

import pytest

from tests.faults.one_table import make_table
from tests.fix_producer import ProducerUnderTest, refusal_of
from tests.wait import wait_until
from walbridge.producer.kafka.publisher import Publisher
from walbridge.producer.metrics import ProducerMetrics
from walbridge.producer.postgres.source import Source
from walbridge.producer.session.transaction_spool import Spool
from walbridge.producer.start import start
from walbridge.producer.waits import Waits
from walbridge.schemas.settings_file import load_settings

pytestmark = pytest.mark.fault


def test_second_producer_of_a_slot_takes_it_over_and_the_first_ends(producer: ProducerUnderTest) -> None:
    """Fenced: one goes on, nothing is lost, nothing comes twice."""
    make_table(producer)
    producer.publish("t")
    first = producer.start_streaming()
    producer.database.execute("INSERT INTO t SELECT generate_series(10, 50)")
    second = producer.start()
    wait_until(lambda: "stream begins again" in second.log or "streaming" in second.log, "the second to begin")
    producer.database.execute("INSERT INTO t SELECT generate_series(51, 100)")
    words = refusal_of(first)
    assert "another producer runs under transactional id" in words
    second.wait_for_log("streaming")
    producer.database.execute("INSERT INTO t SELECT generate_series(101, 120)")
    producer.check_equal()
    assert second.process.poll() is None


def test_what_the_first_published_while_the_second_started_is_no_older_backup(
    producer: ProducerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the second has fenced it, the first goes on, past the end of the WAL that the second saw before."""
    make_table(producer)
    producer.publish("t")
    producer.start_streaming()
    opened = Publisher.open_instance

    def publish_first(publisher: Publisher, timeout_s: float) -> None:
        producer.database.execute("INSERT INTO t VALUES (2)")
        with producer.topics() as topics:
            producer.caught_up(topics)
        opened(publisher, timeout_s)

    monkeypatch.setattr(Publisher, "open_instance", publish_first)
    settings = load_settings(str(producer.folder / "walbridge.toml"))
    source, spool = Source(settings), Spool(settings)

    second = start(settings, source, spool, Waits(lambda: False), ProducerMetrics())
    spool.close()
    source.close()

    assert second.progress is not None
    assert second.server.wal_end >= second.progress.done
