"""The seed of random kills: the same in each run, unless FAULT_SEED names another.

So a red run of ``make test`` is red again for whoever looks into it. ``make fault`` and ``make
soak`` draw a new seed each time, and take ``SEED=7`` of one that was printed.
"""

from __future__ import annotations

import os

USUAL = 8


def fault_seed(usual: int = USUAL) -> int:
    """The seed, printed with what draws the same again."""
    seed = int(os.environ.get("FAULT_SEED") or usual)
    print(f"\nseed {seed}: again with FAULT_SEED={seed}", flush=True)
    return seed


def is_drawn() -> bool:
    """Somebody asked for kills of another seed than that of each run."""
    return bool(os.environ.get("FAULT_SEED"))
