"""The time of the oldest record in Kafka that the lake still needs. Pure.

In: finished rows of ``_cuts``, as they come. Out: a time. The lake needs all records after its published state, and all
records of each pending copy. The time never goes back, so the newest one told is right, also after a restart, when the
job knows it less exactly.
"""

import math
from collections.abc import Callable
from datetime import datetime

from walbridge.spark_consumer.plan.manifest_row import CutRow

PublishedBy = Callable[[int], CutRow | None]
"""The newest published row that ends at or before an LSN, of those that are kept."""


class UnreadSince:
    """The times of one job, in seconds since 1970; NaN: nothing is published."""

    def __init__(self) -> None:
        self.published_s = math.nan
        """The published state has everything that was committed by then."""
        self._copies: dict[tuple[int, str, int, int], float] = {}
        """When each copy that goes on began: relation id and topic, and the position of its ``copy_begin``."""

    @property
    def at_s(self) -> float:
        """Records from this time on may be needed."""
        return min(
            (each for each in (self.published_s, *self._copies.values()) if not math.isnan(each)), default=math.nan
        )

    def add_row(self, row: CutRow, published_by: PublishedBy | None = None) -> None:
        """The newest finished row; the first one comes with ``published_by``, since its copies began before."""
        began: dict[tuple[int, str, int, int], float] = {}
        for entry in row.tables:
            copy = entry.copy_from
            if copy is not None:
                key = entry.relation_id, copy.topic, *copy.start
                began[key] = self._copies.get(key) or self._begun_s(row, copy.start.commit_lsn, published_by)
        self._copies = began
        if row.kind == "published":
            # A plan without a commit time held no transaction: the lake was up to date when its row was written.
            self.published_s = _seconds(row)

    def reached(self, moment: datetime) -> None:
        """The published state is the source's also at that moment."""
        self.published_s = max(self.published_s, moment.timestamp())

    def _begun_s(self, row: CutRow, lsn: int, published_by: PublishedBy | None) -> float:
        """A time no later than the copy's first record: when the state before it was published."""
        if published_by is None and not math.isnan(self.published_s):
            return self.published_s
        before = published_by(lsn) if published_by is not None else None
        return _seconds(row if before is None else before)


def _seconds(row: CutRow) -> float:
    return (row.commit_time or row.written_at).timestamp()
