"""The job asks for copies of tables that it left, and only where a copy mends."""

from __future__ import annotations

from typing import Literal
from unittest.mock import MagicMock

import pytest

from walbridge.schemas.control.table_request import COPY, request_of
from walbridge.schemas.errors import OperatorError, TableError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Lake
from walbridge.spark_consumer.kafka.control.copy_requests import CopyRequests
from walbridge.spark_consumer.plan.table_trouble import TableTrouble

Policy = Literal["copy", "quarantine", "stop"]


class Sent:
    """What a job's Java client was given to send."""

    def __init__(self, policy: Policy = "copy", partitions: int = 1) -> None:
        spark, self.kafka = MagicMock(), MagicMock()
        self.kafka.partition_count.return_value = partitions
        self.record = spark._jvm.org.apache.kafka.clients.producer.ProducerRecord
        self.requests = CopyRequests(spark, self.kafka, Settings(name="p", lake=Lake(on_table_error=policy)))

    @property
    def tables(self) -> list[int]:
        found = []
        for topic, partition, key, value in (call.args for call in self.record.call_args_list):
            request = request_of("slot", key, value)
            assert (topic, partition) == ("p.progress", 0)
            assert request is not None
            assert (request.kind, request.by_lake) == (COPY, True)
            found.append(request.relation_id)
        return found


def trouble(relation_id: int, first: str | None = None) -> TableTrouble:
    return TableTrouble(relation_id, f"t{relation_id}", "schema", TableError("its folder is gone", first))


def test_each_table_that_a_copy_mends_is_asked_for_once() -> None:
    sent = Sent()
    assert sent.requests.ask("slot", [trouble(1), trouble(2, "raise a setting"), trouble(3), trouble(1)]) == {1, 3}
    assert sent.tables == [1, 3]


@pytest.mark.parametrize("policy", ["quarantine", "stop"])
def test_nothing_is_asked_for_where_the_settings_say_so(policy: Policy) -> None:
    sent = Sent(policy)
    assert sent.requests.ask("slot", [trouble(1)]) == frozenset()
    assert sent.tables == []


def test_nothing_is_asked_for_where_no_producer_would_read_it() -> None:
    sent = Sent(partitions=0)
    assert sent.requests.ask("slot", [trouble(1)]) == frozenset()


def test_job_that_may_not_write_goes_on_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = Sent()
    refused = OperatorError("topic p.progress may not be written", remedy="let it")
    monkeypatch.setattr(sent.requests, "_write", MagicMock(side_effect=refused))
    assert sent.requests.ask("slot", [trouble(1)]) == frozenset()
    assert "no copy could be asked for" in capsys.readouterr().out
