"""What maintenance takes for now: one clock for ages, another one for turns.

Rows and files outlive the job, so their ages are told by the wall clock, which somebody may set, by days. Turns of one
job go by time that passes: by the wall clock, a table would wait for a clock that was set back until it has caught up,
and one that is set ahead during a visit would make the visit, and so the pause after it, last for days.
"""

import time
from datetime import UTC, datetime, timedelta


class Clock:
    """That of this process."""

    def __init__(self) -> None:
        self._began, self._began_s = datetime.now(UTC), time.monotonic()

    def __call__(self) -> datetime:
        """Now, by the wall clock."""
        return datetime.now(UTC)

    def steady(self) -> datetime:
        """A moment that differs from others by the time between them, whatever the wall clock says."""
        return self._began + timedelta(seconds=time.monotonic() - self._began_s)
