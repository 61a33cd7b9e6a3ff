"""What rows that are older than a column have in it, as events have values."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.schemas.strategies import column, numeric_typmod
from walbridge.consumer import PostgresText
from walbridge.consumer.event import _value_of


@pytest.mark.parametrize(
    ("type_oid", "typmod", "text", "value"),
    [
        (23, -1, "-3", -3),
        (16, -1, "t", True),
        (25, -1, "", ""),
        (1700, numeric_typmod(10, 2), "1.50", Decimal("1.50")),
        (1082, -1, "2024-02-29", date(2024, 2, 29)),
        (1184, -1, "2024-02-29 01:02:03.5+00", datetime(2024, 2, 29, 1, 2, 3, 500_000, UTC)),
        (17, -1, "\\x00ff", b"\0\xff"),
        (1009, -1, "{a,NULL}", ["a", None]),
    ],
)
def test_older_value_is_what_an_event_would_have(type_oid: int, typmod: int, text: str, value: Any) -> None:
    found = _value_of(column("c", type_oid, typmod), text)

    assert (found, type(found)) == (value, type(value))


def test_older_value_that_its_type_cannot_hold_is_the_text() -> None:
    assert repr(_value_of(column("c", 1082), "infinity")) == repr(PostgresText("infinity"))
