"""How many examples the tests of properties draw: a quarter in ``make check``, all in ``make soak`` (``EXAMPLES=all``).

Each run draws others, so that what one does not meet is met by a later one.
"""

import os

FEWEST = 5


def examples(count: int) -> int:
    """``count``: of ``make soak``."""
    return count if os.environ.get("EXAMPLES") == "all" else max(FEWEST, count // 4)
