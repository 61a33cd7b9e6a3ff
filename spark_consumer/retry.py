"""Trying again when Kafka is away: for a bounded time at start, without a bound once it has answered.

In: attempts that end in ``RetryableError``. Out: pauses that double up to a cap, one warning each.
"""

import threading
import time
from collections.abc import Callable

import structlog

from walbridge.runtime.back_off import BackOff
from walbridge.schemas.errors import START_BROKER, OperatorError, RetryableError

log = structlog.get_logger()

STEADY_S = 60.0
"""After an attempt that lasted this long, the next pause is the shortest again."""


def keep_going(
    attempt: Callable[[], None],
    is_started: Callable[[], bool],
    stop: threading.Event,
    on_away: Callable[[RetryableError], None] = lambda error: None,
    *,
    start_timeout_s: float,
) -> None:
    """Run ``attempt`` until it returns, or ``stop`` is set.

    Raises:
        OperatorError: nothing answered within ``start_timeout_s``; or what ``attempt`` raised.
    """
    began = time.monotonic()
    due = BackOff(first_s=0.5)
    while not stop.is_set():
        since = time.monotonic()
        try:
            attempt()
            return
        except RetryableError as error:
            on_away(error)
            if not is_started() and time.monotonic() - began > start_timeout_s:
                raise OperatorError(
                    f"no answer within {start_timeout_s:.0f} s: {error}",
                    remedy=START_BROKER,
                ) from error
            # Measured without the pause: a broker that let an attempt run for so long was back.
            if time.monotonic() - since > STEADY_S:
                due.reset()
            log.warning("attempt failed, trying again", error=str(error), pause_s=due.pause_s)
            stop.wait(due.pause_s)
            due.grow()
