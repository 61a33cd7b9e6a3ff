"""A sweep never sees one moment, and still brings no right table in doubt; what is wrong and rests is found (I8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from walbridge.verify.comparison.differences import Row, differences
from walbridge.verify.comparison.verdict import Verdict

PLACES = 6
KEYS = "abcd"
Change = tuple[str, str, int, int]
"""What is done, key, value, place."""
CHANGES: st.SearchStrategy[Change] = st.tuples(
    st.sampled_from(["write", "write", "delete", "rekey"]),
    st.sampled_from(KEYS),
    st.integers(0, 2),
    st.integers(0, PLACES - 1),
)
BETWEEN = st.lists(st.lists(CHANGES, max_size=3), min_size=3 * PLACES, max_size=3 * PLACES)
"""What is done before each part of three sweeps."""


@dataclass
class Source:
    """Row versions by key: value, place, and the number of the transaction that wrote it."""

    rows: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    xid: int = 0

    def change(self, change: Change) -> None:
        what, key, value, place = change
        self.xid += 1
        if what == "write":
            self.rows[key] = value, place, self.xid
        elif what == "delete":
            self.rows.pop(key, None)
        elif key in self.rows:
            moved = self.rows.pop(key)
            self.rows[KEYS[value]] = moved[0], place, self.xid

    def part(self, place: int) -> Iterator[tuple[str, Row]]:
        for key, (value, at, xid) in self.rows.items():
            if at == place:
                yield key, Row(digest(key, value), f"{at}:{xid}")

    def lake(self) -> list[tuple[str, Row]]:
        """The rows of a lake that holds this state: positions instead of places."""
        return [(key, Row(digest(key, value), f"{xid}/0")) for key, (value, _, xid) in self.rows.items()]


def digest(key: str, value: int) -> bytes:
    return f"{key}={value}".encode()


def judged(between: list[list[Change]], altered: Callable[[list[tuple[str, Row]]], list[tuple[str, Row]]]) -> Verdict:
    """Of three rounds: a cut, then a sweep with changes before each part. ``altered``: what the lake has in truth."""
    source, verdict = Source(), Verdict()
    for number, key in enumerate(KEYS[:3]):
        source.change(("write", key, 0, number))
    steps = iter(between)
    for _ in range(3):
        cut = altered(source.lake())
        swept: list[tuple[str, Row]] = []
        for place in range(PLACES):
            for change in next(steps):
                source.change(change)
            swept += source.part(place)
        verdict.add_round(differences(swept, cut))
    return verdict


@given(BETWEEN)
def test_lake_that_is_right_is_never_in_doubt_whatever_moves_between_the_parts(between: list[list[Change]]) -> None:
    assert judged(between, lambda rows: rows).confirmed == {}


@given(BETWEEN)
def test_row_that_only_the_lake_has_is_found_while_all_others_move(between: list[list[Change]]) -> None:
    verdict = judged(between, lambda rows: [*rows, ("ghost", Row(b"ghost", "1/0"))])

    assert verdict.confirmed.keys() == {"ghost"}


@given(BETWEEN)
def test_row_that_the_lake_lacks_is_found_if_it_rests(between: list[list[Change]]) -> None:
    resting = [[change for change in changes if change[1] != "a" and change[0] != "rekey"] for changes in between]
    verdict = judged(resting, lambda rows: [row for row in rows if row[0] != "a"])

    assert verdict.confirmed.keys() == {"a"}
