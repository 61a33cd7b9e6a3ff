"""What is killed, when and together: drawn from one seed, nothing else.

In: a seed and a number of rounds. Out: rounds of strikes. Every round kills each of the four, and
two of the cheap ones again; in the first round and every second from there two of them die at once.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

SPARK, PRODUCER, BROKER, POSTGRES = "Spark", "producer", "broker", "Postgres"
KINDS = (SPARK, PRODUCER, BROKER, POSTGRES)
AIMS = {
    # Some moments are shorter than chance finds them: right after a commit, inside the next plan.
    SPARK: ("any", "plan"),
    PRODUCER: ("any", "commit", "commit"),
    BROKER: ("any", "commit"),
    POSTGRES: ("any", "commit"),
}
AIM_DELAY_S = {"any": (0.1, 2.5), "commit": (0.0, 0.02), "plan": (0.0, 1.5)}


@dataclass(frozen=True, slots=True)
class Strike:
    """One moment: who dies, how it is chosen, how long a dead server stays down."""

    victims: tuple[str, ...]
    aim: str
    delay_s: float
    down_s: float

    def __str__(self) -> str:
        return f"{' and '.join(self.victims)}, aim {self.aim} + {self.delay_s:.3f} s, down {self.down_s:.2f} s"


Rounds = list[list[Strike]]


def draw(seed: int, rounds: int) -> Rounds:
    """The schedule of this seed: its first rounds are the same whatever their number."""
    dice = random.Random(seed)
    return [_round(dice, paired=number % 2 == 0) for number in range(rounds)]


def kills(rounds: Iterable[Iterable[Strike]]) -> Counter[str]:
    """Kills of each kind."""
    return Counter(victim for strikes in rounds for strike in strikes for victim in strike.victims)


def _round(dice: random.Random, *, paired: bool) -> list[Strike]:
    others = [kind for kind in KINDS if kind != SPARK]
    dice.shuffle(others)
    # The driver needs seconds to come back: mostly it dies first, and the others die meanwhile.
    order = [SPARK, *others] if dice.random() < 0.7 else [*others, SPARK]
    groups = [(kind,) for kind in order]
    if paired:
        at = dice.randrange(len(groups) - 1)
        groups[at : at + 2] = [groups[at] + groups[at + 1]]  # type: ignore[list-item]
    for again in (PRODUCER, dice.choice((PRODUCER, POSTGRES))):
        groups.insert(dice.randint(1, len(groups)), (again,))
    return [_strike(dice, victims) for victims in groups]


def _strike(dice: random.Random, victims: tuple[str, ...]) -> Strike:
    aim = dice.choice(AIMS[victims[0]])
    return Strike(victims, aim, dice.uniform(*AIM_DELAY_S[aim]), dice.choice((0.0, dice.uniform(0.0, 1.5))))
