"""Whether a transaction hides cuts: of another program's that stays open nobody else would tell.

In: the log of ``<p>.cuts``, looked at now and then while no cut comes. Out: a warning with what ends that transaction.
The job sees no cut behind it and takes the source for one at rest, and the producer, which does not read, goes on.
"""

import time
from collections.abc import Callable
from contextlib import suppress

import structlog

from walbridge.schemas.errors import RetryableError, end_transaction
from walbridge.schemas.topics import cuts_topic
from walbridge.spark_consumer.kafka.kafka_client import MissingTopics
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog

log = structlog.get_logger()

LOOK_EVERY_S = 10.0
"""At the least: each look is another consumer's."""


class HiddenCuts:
    """Looks at one pipeline's topic of cuts.

    Args:
        timeout_s: how long records may stay hidden; the producer's own commits hide theirs for a moment.
    """

    def __init__(
        self, kafka: KafkaLog, pipeline: str, timeout_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kafka, self._topic, self._clock = kafka, cuts_topic(pipeline), clock
        self._every_s = max(timeout_s, LOOK_EVERY_S)
        self._looked_s = clock()
        self._seen: int | None = None
        self._told: int | None = None

    def look(self) -> None:
        """Look, if it is time. What two looks find at one place is told once."""
        if self._clock() - self._looked_s < self._every_s:
            return
        self._looked_s = self._clock()
        with suppress(RetryableError, MissingTopics):  # the stream of cuts tells these
            since = self._kafka.undecided_since((self._topic, 0))
            if since is not None and since == self._seen != self._told:
                self._told = since
                _tell(self._topic, since)
            self._seen = since


def _tell(topic: str, since: int) -> None:
    log.warning(
        "a transaction stays open in the topic of cuts, and hides all cuts behind it: the lake stands still",
        topic=topic,
        since_offset=since,
        remedy=end_transaction(topic, since),
    )
