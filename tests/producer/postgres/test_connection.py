"""What a server says, sorted by who must act; what may quote a row is told by its name alone (I10)."""

from __future__ import annotations

from typing import Any, cast

import psycopg
import pytest

from walbridge.producer.postgres.catalog import create_publication
from walbridge.producer.postgres.connection import by_sqlstate, walsender_query
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


@pytest.mark.parametrize(
    ("sqlstate", "remedy"),
    [
        ("42501", "grant the role"),
        ("42704", "start again: the start says what is missing"),
        ("42P01", "start again: the start says what is missing"),
        ("42703", "start again: the start says what is missing"),
        ("53400", "drop one that nobody needs"),
    ],
)
def test_remedy_is_that_of_the_very_error_and_not_of_its_class(sqlstate: str, remedy: str) -> None:
    """No retry makes room among the slots, and no grant brings a dropped publication back."""
    error = by_sqlstate(sqlstate, SAID)

    assert isinstance(error, OperatorError)
    assert remedy in error.remedy


class Lost:
    """Stands for a connection that ends under its next command."""

    socket = 0

    class info:  # noqa: N801 - psycopg's name
        server_version = 180000

    def exec_(self, command: bytes) -> None:
        raise psycopg.OperationalError("executing query failed: no connection to the server")

    def execute(self, statement: object) -> None:
        raise psycopg.OperationalError("the connection is lost")


def test_command_whose_connection_is_lost_is_tried_again() -> None:
    with pytest.raises(RetryableError):
        walsender_query(cast(Any, Lost()), "IDENTIFY_SYSTEM")
    with pytest.raises(RetryableError):
        create_publication(cast(Any, Lost()), "walbridge", ["public.t"])
