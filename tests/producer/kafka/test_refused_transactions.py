"""A broker that never lets us begin a transaction: who is asked to do what."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from walbridge.producer.kafka.instance import _refuse_definite
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings


def test_timeout_that_brokers_do_not_allow_is_told_with_both_settings() -> None:
    """Rights were asked for, which mended nothing."""
    with pytest.raises(OperatorError, match=r"no transactions of 300000 ms, which is \[producer\]") as refused:
        _refuse_definite(KafkaError(KafkaError.INVALID_TRANSACTION_TIMEOUT, fatal=True), Settings(), "p/1/slot")

    assert "transaction.max.timeout.ms of the brokers" in refused.value.remedy


def test_right_that_is_missing_is_asked_for() -> None:
    with pytest.raises(OperatorError, match="refuses transactional id p/1/slot") as refused:
        _refuse_definite(KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), Settings(), "p/1/slot")

    assert "grant Write and Describe" in refused.value.remedy
