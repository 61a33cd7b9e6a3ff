"""Which differences are real, on a source that is being written to.

In: the differences of each round. Out: those that are proved, and those that are undecided. Pure.

The snapshot of the source and the published cut are never of the same moment, so a difference counts only if two
rounds prove it. Rounds are ordered: cut k, snapshot k, cut k+1 (which holds all that snapshot k saw), snapshot k+1.
There are two proofs; changes in between cannot mislead them:

- A row version (tableoid, ctid, xmin) that is in both snapshots was in the source at cut k+1, which lies between them.
  If the lake at cut k+1 has fewer rows of its digest, the lake lacks the row.
- A lake row with the same digest and position in both cuts was, if the lake is right, in the source all the time, so
  also in snapshot k. If it is not in snapshot k, the lake should not have it.

Both proofs need snapshots that show all that the cut before them holds. While commits wait for a synchronous standby
that is not certain (``visibility.py``), and the round proves nothing.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from walbridge.verify.comparison.differences import Difference, Differences, digests_of


def proves_difference(first: Difference, second: Difference) -> bool:
    """Whether two rounds prove that the lake is wrong, by either proof of this module."""
    kept_by_source = Counter(first.source) & Counter(second.source)
    kept_by_lake = Counter(first.lake) & Counter(second.lake)
    return _exceeds(digests_of(kept_by_source.elements()), digests_of(second.lake)) or _exceeds(
        digests_of(kept_by_lake.elements()), digests_of(first.source)
    )


def _exceeds(kept: Counter[bytes], held: Counter[bytes]) -> bool:
    return any(count > held[digest] for digest, count in kept.items())


@dataclass(slots=True)
class Verdict:
    """What the rounds so far say of one table.

    Only keys that differed in the first round are examined further: a key that is equal in a later round was only
    late in the lake, and one that begins to differ later was equal before. ``confirmed``: keys with a proved
    difference; ``undecided``: the other keys that still differ, with their rows in the last round.
    ``whole``: whether the first round (or the one in which the examination began anew) fetched all differing rows.
    ``had_proving_rounds``: whether there were two rounds in a row since then that could prove a difference.
    ``is_visible``: whether the last round can be one of such two.
    """

    confirmed: dict[str, Difference] = field(default_factory=dict)
    undecided: dict[str, Difference] = field(default_factory=dict)
    rounds: int = 0
    whole: bool = True
    had_proving_rounds: bool = False
    is_visible: bool = True

    @property
    def is_settled(self) -> bool:
        """Whether another round can say no more."""
        return self.rounds > 0 and not self.undecided and (self.whole or bool(self.confirmed))

    def add_round(self, found: Differences, whole: bool = True, *, is_visible: bool = True) -> None:
        """Add the differences of the next round; its cut holds all that the last snapshot saw.

        ``whole``: whether the rows of every differing bucket were fetched; if not, a key that is not
        in ``found`` may still differ. ``is_visible``: whether the snapshot shows all that its cut holds.
        """
        self.rounds += 1
        proves, self.is_visible = is_visible and self.is_visible, is_visible
        if self.rounds == 1:
            self.undecided, self.whole = dict(found), whole
            return
        self.had_proving_rounds |= proves
        self.confirmed |= {
            key: found[key]
            for key, before in self.undecided.items()
            if proves and key in found and proves_difference(before, found[key])
        }
        still = {key: found.get(key, before) for key, before in self.undecided.items() if key in found or not whole}
        self.undecided = {key: now for key, now in still.items() if key not in self.confirmed}
        if not self.whole and not self.undecided and not self.confirmed:
            # All rows fetched so far were only late. Begin anew with the buckets that were not fetched then.
            self.undecided, self.whole, self.rounds, self.had_proving_rounds = dict(found), whole, 1, False

    @property
    def is_conclusive(self) -> bool:
        """Whether all that differed was compared in two rounds that could have proved a difference."""
        return self.whole and (self.had_proving_rounds or not self.undecided)

    def confirmed_keys(self) -> Iterator[tuple[str, str, int]]:
        """Kind, key and rows of each real difference, in order of key."""
        return ((found.kind, key, found.count) for key, found in sorted(self.confirmed.items()))
