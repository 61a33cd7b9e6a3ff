"""What a server says, sorted by who must act; what may quote a row is told by its name alone (I10)."""

from __future__ import annotations

import pytest

from walbridge.producer.postgres.connection import by_sqlstate
from walbridge.schemas.errors import OperatorError, RetryableError

SAID = 'invalid input syntax for type integer: "canary"'


@pytest.mark.parametrize(
    ("sqlstate", "kind", "told"),
    [
        ("28P01", OperatorError, SAID),
        ("42501", OperatorError, SAID),
        ("57P01", RetryableError, SAID),
        ("", RetryableError, f"no SQLSTATE): {SAID}"),
        ("22P02", OperatorError, "(22P02): InvalidTextRepresentation"),
        ("22999", OperatorError, "(22999): its words may quote a row"),
        ("23514", RetryableError, "(23514): CheckViolation"),
    ],
)
def test_server_error_is_sorted_and_told_without_a_row(sqlstate: str, kind: type[Exception], told: str) -> None:
    error = by_sqlstate(sqlstate, SAID)

    assert isinstance(error, kind)
    assert told in str(error)
    assert ("canary" in str(error)) == (SAID in told)
