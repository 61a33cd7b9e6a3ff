"""Pauses between attempts: each twice as long as the one before, up to a bound. Pure: the caller sleeps.

In: the first pause and the longest one. Out: the pause that is due.
"""

from dataclasses import dataclass, field

FIRST_S = 0.25


@dataclass(slots=True)
class BackOff:
    """``first_s`` may be 0: then the first attempt that fails is followed by another at once."""

    first_s: float = FIRST_S
    max_s: float = 30.0
    pause_s: float = field(init=False)
    """The pause before the next attempt."""

    def __post_init__(self) -> None:
        self.reset()

    def grow(self) -> None:
        """The next attempt failed too."""
        self.pause_s = min(2 * self.pause_s or FIRST_S, self.max_s)

    def reset(self) -> None:
        """An attempt has worked: the next failure is followed by the first pause again."""
        self.pause_s = self.first_s
