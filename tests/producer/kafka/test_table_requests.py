"""The thread that reads what operators ask for, without a broker."""

from __future__ import annotations

from walbridge.producer.kafka.table_requests import TableRequests
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Kafka


def test_reader_of_requests_ends_with_its_session_while_the_broker_is_away() -> None:
    """A read that waits for a broker's answer must not hold up a stop."""
    requests = TableRequests(Settings(kafka=Kafka(bootstrap_servers="127.0.0.1:1")), 0)
    with requests:
        assert requests.take() is None
    requests._thread.join(10)
    assert not requests._thread.is_alive()
