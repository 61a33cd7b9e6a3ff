"""Rows under changing keys: chains of lifetimes, and the values that key changes left out (I6)."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.contract_writer import Event
from tests.spark_consumer.events import Log, applied, column, copied, head_rows, relation, table_plan, values
from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.fold.key_changes import chain_beginnings

LSN = 0x1100
ITEMS = relation([column("id", "int4", is_key=True), column("body"), column("tags", "_int4"), column("n", "int4")])


def test_chain_of_changes_ends_at_its_first_lifetime() -> None:
    a, b, c = (b"a", 0), (b"b", 1), (b"c", 1)

    assert chain_beginnings({c: b, b: a}) == {c: a, b: a}


def test_lifetimes_of_one_key_are_kept_apart() -> None:
    links = {(b"b", 1): (b"a", 0), (b"a", 1): (b"b", 1), (b"b", 2): (b"a", 1)}

    assert set(chain_beginnings(links).values()) == {(b"a", 0)}


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 2**16))
def test_every_lifetime_of_a_chain_is_led_back_to_the_first_one(lengths: list[int], seed: int) -> None:
    """I6: whatever the order in which the links are found."""
    chains = [[(bytes([chain]), life) for life in range(length + 1)] for chain, length in enumerate(lengths)]
    links = [(lifetime, chain[place]) for chain in chains for place, lifetime in enumerate(chain[1:])]
    random.Random(seed).shuffle(links)

    assert chain_beginnings(dict(links)) == {lifetime: chain[0] for chain in chains for lifetime in chain[1:]}


class Keys:
    """Writes changes of one transaction after another."""

    def __init__(self) -> None:
        self.log = Log()
        self.lsn = LSN
        self.shift = 0
        """Of the keys that it is told."""

    def move(self, old: int, new: int, n: int | None = None, unchanged: tuple[str, ...] = ("body", "tags")) -> "Keys":
        self.lsn += 8
        self.delete(old)
        before, after = {"id": self.shift + old}, {"id": self.shift + new, "n": n}
        moved = Event(ITEMS, "c", self.lsn, 1, before=before, before_image="key", after=after, unchanged=unchanged)
        self.log.add(moved)
        return self

    def delete(self, key: int) -> "Keys":
        self.log.add(Event(ITEMS, "d", self.lsn, 0, before={"id": self.shift + key}, before_image="key"))
        return self

    def update(self, key: int, **row: object) -> "Keys":
        self.lsn += 8
        left_out = [name for name in ("body", "tags") if name not in row]
        self.log.add(Event(ITEMS, "u", self.lsn, 0, after={"id": self.shift + key, **row}, unchanged=left_out))
        return self

    def insert(self, key: int, body: str) -> "Keys":
        self.lsn += 8
        self.log.add(Event(ITEMS, "c", self.lsn, 0, after={"id": self.shift + key, "body": body}))
        return self

    def later(self) -> "Keys":
        self.lsn += 8
        return self


Bodies = dict[int, str]
SCENARIOS: dict[str, tuple[Callable[[Keys], Keys], Bodies, Bodies]] = {
    "the value is from the lake": (lambda keys: keys.move(1, 2), {1: "one"}, {2: "one"}),
    "the value is from an earlier event": (lambda keys: keys.update(1, body="new").move(1, 2), {1: "old"}, {2: "new"}),
    "back and forth": (lambda keys: keys.move(1, 2).move(2, 3).update(3, n=5).move(3, 1), {1: "one"}, {1: "one"}),
    "swapped": (
        lambda keys: keys.move(1, 9).move(2, 1).move(9, 2),
        {1: "one", 2: "two"},
        {1: "two", 2: "one"},
    ),
    "shifted onto the key of a deleted row": (
        lambda keys: keys.delete(1).move(2, 1).insert(2, "fresh").move(2, 3),
        {1: "one", 2: "two"},
        {1: "two", 3: "fresh"},
    ),
    "moved and deleted": (lambda keys: keys.move(1, 2).later().delete(2), {1: "one"}, {}),
}
"""What is done to rows, the lake's bodies by id before it, and after it."""


def bodies(spark: SparkSession, lake: Path, keys: Keys, base: Bodies) -> dict[int, str | None]:
    """Body by id after these changes of a table that held ``base``."""
    head = copied(None, lake, ITEMS, *[{"id": key, "body": body} for key, body in base.items()])
    head = applied(spark, lake, keys.log, table_plan(ITEMS, head), [ITEMS], to_cut=2)
    return {row["id"]: row["body"] for row in values(head_rows(lake, head))}


def test_row_keeps_its_value_whatever_becomes_of_its_key(spark: SparkSession, lake: Path) -> None:
    """All scenarios in one plan, each with keys of its own."""
    keys, base, expected = Keys(), Bodies(), Bodies()
    for at, (change, before, after) in enumerate(SCENARIOS.values()):
        keys.later().shift = 10 * at
        change(keys)
        base |= {keys.shift + key: body for key, body in before.items()}
        expected |= {keys.shift + key: body for key, body in after.items()}

    assert bodies(spark, lake, keys, base) == expected


def test_key_change_without_the_delete_of_the_old_key_stops_the_job(spark: SparkSession, lake: Path) -> None:
    """I6, I7: the lake's row of the new key is another one, and its values are not the moved row's."""
    keys = Keys()
    keys.log.add(Event(ITEMS, "c", LSN, 1, before={"id": 1}, before_image="key", after={"id": 2}, unchanged=["body"]))

    with pytest.raises(OperatorError, match="holds a key change without the delete of the old key"):
        bodies(spark, lake, keys, {1: "one", 2: "two"})
