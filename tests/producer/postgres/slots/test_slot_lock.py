"""The lock's key, which versions share: another one would let two producers begin."""

from datetime import UTC, datetime

import pytest

from walbridge.producer.postgres.slots.slot_lock import Holder, lock_key


@pytest.mark.parametrize(("slot", "key"), [("walbridge", 2635586027313605037), ("shop", -253385461392546907)])
def test_key_of_a_slot_is_what_the_page_of_commands_says(slot: str, key: int) -> None:
    assert lock_key(slot) == key


def test_holder_is_told_as_far_as_the_server_shows_it() -> None:
    since = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert str(Holder(7, "walbridge producer, process 1 on h", "10.0.0.1", since)) == (
        "walbridge producer, process 1 on h, Postgres pid 7, from 10.0.0.1, since 2026-01-02 03:04:05 UTC"
    )
    assert str(Holder(7, None, None, None)) == "a session without a name, Postgres pid 7"
