"""When a batch ends: at a limit of one Kafka transaction, and inside a transaction that alone exceeds one.

In: settings, and what the open batch holds. Out: whether it is full, may wait for a moment, or must be split. These
limits bound memory, the size of a cut and the number of segments in a plan (I9).
"""

import time

from walbridge.producer.batch.progress import Batch
from walbridge.schemas.settings import Settings

BARRIERS_MAX = 12
"""Barriers of one table at which a batch closes after its transaction: the job has 16 segments a plan."""
BARRIERS_SPLIT = 14
"""At so many the batch ends even inside a transaction."""
CUT_TABLE_BYTES = 160
"""Estimate of what one table adds to a cut, with its partition."""


class BatchLimits:
    """The limits of each batch, and those inside the transaction that is open now."""

    def __init__(self, settings: Settings) -> None:
        self._limits = settings.producer
        self.bytes_max = settings.producer.batch_bytes_max
        self.age_max_s = settings.producer.transaction_timeout_ms / 4000
        """A quarter of Kafka's transaction timeout: at this age the batch ends, even inside a transaction."""
        self.split_rows = 0
        """At this many rows, or ``split_bytes``, the batch ends inside the open transaction."""
        self.split_bytes = 0
        self._rows_before = self._dropped_before = 0

    def begin_transaction(self, held: Batch) -> None:
        """Set the size at which this transaction is split: only where it alone adds as much as a whole batch may hold,
        whatever was ``held`` before it."""
        self._rows_before, self._dropped_before = held.row_count, len(held.dropped)
        self.split_rows = held.row_count + self._limits.batch_rows_max
        self.split_bytes = held.byte_count + self._limits.batch_bytes_max

    def is_split_due(self, batch: Batch) -> bool:
        """Whether the open transaction is too large for one batch."""
        return (
            batch.row_count >= self.split_rows
            or batch.byte_count >= self.split_bytes
            or batch.barriers_max >= BARRIERS_SPLIT
        )

    def is_in_transaction(self, batch: Batch) -> bool:
        """Whether something in the batch came after the last whole transaction."""
        return batch.row_count > self._rows_before or len(batch.dropped) > self._dropped_before

    def is_full(self, batch: Batch) -> bool:
        """Whether a limit is reached, so that the batch ends at the next boundary between transactions."""
        return self._are_reached(batch, 1) or age_s(batch) * 1000 >= self._limits.batch_ms_max

    def rows_left(self, batch: Batch) -> int:
        """How many more rows the limit has room for."""
        return max(self._limits.batch_rows_max - batch.row_count, 0)

    def may_wait(self, batch: Batch) -> bool:
        """Whether a full batch may stay open for a moment: it holds less than twice the limits."""
        return not self._are_reached(batch, 2) and age_s(batch) < self.age_max_s

    def _are_reached(self, batch: Batch, times: int) -> bool:
        limits = self._limits
        return (
            batch.row_count >= limits.batch_rows_max * times
            or batch.byte_count >= limits.batch_bytes_max * times
            or batch.barriers_max >= BARRIERS_MAX
            or len(batch.tables) * CUT_TABLE_BYTES >= limits.cut_bytes_max
        )


def age_s(batch: Batch) -> float:
    """Seconds since the batch was opened."""
    return time.monotonic() - batch.opened_s
