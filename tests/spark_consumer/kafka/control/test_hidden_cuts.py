"""A transaction that hides cuts is told once it has stayed at one place, and never for the producer's own commits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import pytest
from structlog.testing import capture_logs

from walbridge.schemas.errors import RetryableError
from walbridge.spark_consumer.kafka.control.hidden_cuts import HiddenCuts
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog

TIMEOUT_S = 60.0
AWAY = "away"


class FakeLog:
    """Answers one look after the other."""

    def __init__(self, answers: Iterable[int | str | None]) -> None:
        self._answers = iter(answers)

    def undecided_since(self, partition_id: tuple[str, int]) -> int | None:
        assert partition_id == ("p.cuts", 0)
        answer = next(self._answers)
        if isinstance(answer, str):
            raise RetryableError(answer)
        return answer


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([None, None], []),
        ([7, 9, None, 11], []),
        ([7, 7], [7]),
        ([7, 7, 7, 7], [7]),
        ([7, AWAY, 7], [7]),
        ([7, 7, None, 9, 9], [7, 9]),
    ],
    ids=["nothing hidden", "own commits", "hidden", "told once", "broker away meanwhile", "another one"],
)
def test_transaction_that_stays_open_is_told(answers: list[int | str | None], told: list[int]) -> None:
    now_s = [0.0]
    hidden = HiddenCuts(cast("KafkaLog", FakeLog(answers)), "p", TIMEOUT_S, lambda: now_s[0])

    with capture_logs() as logged:
        for _ in answers:
            hidden.look()  # too early: nobody is asked
            now_s[0] += TIMEOUT_S
            hidden.look()

    assert [entry["since_offset"] for entry in logged] == told
    for entry in logged:
        command = f"kafka-transactions.sh abort --topic p.cuts --partition 0 --start-offset {entry['since_offset']}"
        assert entry["remedy"].endswith(command)
