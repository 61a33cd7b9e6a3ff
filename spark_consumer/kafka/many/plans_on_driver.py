"""Which plans the driver fetches and decodes by itself; Spark reads all others.

In: settings; the rows of a plan by topic; topics whose records could not be decoded by columns. Fetching these was for
nothing, so for some plans they are left to Spark at once.
"""

from collections.abc import Mapping

from walbridge.schemas.settings import Settings

ROWS_MAX = 1_000_000
"""Of more records their places, some 80 bytes each, would take too much of the driver's memory (I9)."""
PAUSE = 4
"""So many plans a topic is left to Spark."""


class PlansOnDriver:
    """Of one job; several threads add topics."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._is_used = settings is None or (settings.lake.applier != "spark" and settings.topics.format != "json")
        self._left: dict[str, int] = {}

    def add_not_plain(self, topic: str) -> None:
        """Leave the topic to Spark for a while."""
        self._left[topic] = PAUSE

    def suits(self, rows: Mapping[str, int]) -> bool:
        """Whether the driver fetches a plan; counts the plan.

        Args:
            rows: the plan's records by topic.
        """
        left = [topic for topic in rows if self._left.get(topic)]
        for topic in left:
            self._left[topic] -= 1
        total = sum(rows.values())
        return self._is_used and total <= ROWS_MAX and 2 * sum(rows[topic] for topic in left) <= total
