"""Which table is visited because time has passed, however few commits it got.

In: the newest row of ``_cuts`` when a job starts, and the tables that plans write. Out: the table that has waited
longest, one a gap between plans. So files that were too young at one visit are deleted at a later one, also when the
source is at rest; and of jobs that end after one plan (``materialize --once``) each visits another table.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from hashlib import blake2b

from walbridge.spark_consumer.plan.ended_copies import is_fed
from walbridge.spark_consumer.plan.manifest_row import CutRow
from walbridge.spark_consumer.plan.table_head import AWAITING_COPY

INTERVAL = timedelta(hours=6)
"""A table is due so long after its last visit, or after it was first written."""
PAUSE = 20
"""The pause after a visit is so many times as long as the visit, so that plans do not wait for many visits."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Revisits:
    """When each table is due. All are due when a job starts, since it does not know of visits by earlier jobs."""

    def __init__(self) -> None:
        self._due: dict[str, datetime] = {}
        self._not_before = _LONG_AGO
        self.is_seeded = False

    def seed(self, row: CutRow | None) -> None:
        """Make all tables of a row due, in another random order for each row."""
        self.is_seeded = True
        if row is None:
            return
        there = (each for each in row.tables if each.version is not None)
        at_rest = (each for each in there if is_fed(each) or not (each.copy_from and each.copy_from.has_ended))
        paths = {each.path for each in at_rest if each.state not in AWAITING_COPY and not each.is_dropped}
        for place, path in enumerate(sorted(paths, key=lambda path: random_order(row.sequence, path))):
            self._due[path] = _LONG_AGO + timedelta(microseconds=place)

    def written(self, paths: Iterable[str], now: datetime) -> None:
        """Note tables that a plan has written."""
        for path in paths:
            self._due.setdefault(path, now + INTERVAL)

    def next(self, now: datetime) -> str | None:
        """The table that has been due for longest; None if none is due, or in the pause after a visit."""
        path = min(self._due, key=self._due.__getitem__, default=None)
        return None if path is None or now < max(self._due[path], self._not_before) else path

    def visited(self, path: str, now: datetime, took: timedelta, again: timedelta = INTERVAL) -> None:
        """Note a visit, for whatever reason it was made. ``again``: sooner where there was no time for everything."""
        self._due[path] = now + again
        self._not_before = now + PAUSE * took

    def stop_visiting(self, path: str) -> None:
        """Have this table wait for no visit until a plan writes to it again."""
        self._due.pop(path, None)


def random_order(sequence: int, path: str) -> bytes:
    """Where a table stands in an order that is another one for each sequence."""
    return blake2b(f"{sequence} {path}".encode()).digest()
