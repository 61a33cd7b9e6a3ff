"""Errors say who must act."""

import pytest

from walbridge.schemas.errors import (
    EXIT_BUG,
    EXIT_OPERATOR,
    KafkaAway,
    OperatorError,
    ProtocolError,
    RetryableError,
    WalbridgeError,
    report,
)


def test_operator_error_says_what_happened_and_what_mends_it() -> None:
    error = OperatorError("no slot", remedy="make one")

    assert (error.what, error.remedy) == ("no slot", "make one")
    assert str(error) == "no slot\n  remedy: make one"


@pytest.mark.parametrize("kind", [OperatorError, ProtocolError, RetryableError])
def test_every_error_of_ours_has_one_base(kind: type[Exception]) -> None:
    assert issubclass(kind, WalbridgeError)


def test_exit_codes_tell_a_bug_from_an_operators_error() -> None:
    assert (EXIT_BUG, EXIT_OPERATOR) == (1, 2)


def test_report_is_one_line_each_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    code = report(OperatorError("no\nslot", remedy="make\none"))

    assert code == EXIT_OPERATOR
    assert capsys.readouterr().err == "error: no slot\nremedy: make one\n"


def test_kafka_that_is_away_is_told_from_postgres() -> None:
    assert issubclass(KafkaAway, RetryableError)
