"""Which plans the driver fetches and decodes by itself; Spark reads all others.

In: settings; the rows of a plan by topic; topics whose records Spark had to read after all. Fetching these was for
nothing, so some plans are left to Spark at once.
"""

from collections.abc import Iterable, Mapping

from walbridge.schemas.settings import Settings

ROWS_MAX = 1_000_000
"""Of more records their places, some 80 bytes each, would take too much of the driver's memory (I9)."""
PAUSE = 4
"""So many plans a topic is left to Spark."""


class PlansOnDriver:
    """Of one job; several threads add topics."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._is_used = settings is None or (settings.lake.applier != "spark" and settings.topics.format != "json")
        self._not_plain: dict[str, int] = {}
        self._refused: dict[str, int] = {}

    def add_not_plain(self, topic: str) -> None:
        """Leave plans of which most is this topic to Spark for a while."""
        self._not_plain[topic] = PAUSE

    def add_refused(self, topic: str) -> None:
        """Leave all plans with this topic to Spark for a while: they cannot be fetched."""
        self._refused[topic] = PAUSE

    def suits(self, rows: Mapping[str, int]) -> bool:
        """Whether the driver fetches a plan; counts the plan.

        Args:
            rows: the plan's records by topic.
        """
        not_plain, refused = _counted(self._not_plain, rows), _counted(self._refused, rows)
        total, left = sum(rows.values()), sum(rows[topic] for topic in not_plain)
        return self._is_used and total <= ROWS_MAX and not refused and 2 * left <= total


def _counted(pauses: dict[str, int], topics: Iterable[str]) -> list[str]:
    """Those of the topics that have a pause; counts a plan of it."""
    found = [topic for topic in topics if pauses.get(topic)]
    for topic in found:
        pauses[topic] -= 1
    return found
