"""What operators ask of tables, read from the progress topic beside the stream.

In: the offset that progress says is read. Out: requests in their order, each with how far was read by then.

A thread with a consumer of its own: a broker that answers slowly holds up no row. It reads every record of the
topic once, since what the producer writes there itself comes between.
"""

import queue
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from walbridge.producer.kafka.partition_log import PartitionLog
from walbridge.schemas.errors import ProtocolError, RetryableError, unreadable_record
from walbridge.schemas.settings import Settings
from walbridge.schemas.table_request import TableRequest, request_of
from walbridge.schemas.topics import progress_topic

LOOK_S = 2.0
"""Between two looks."""
_END_S = 5.0


@dataclass(frozen=True, slots=True)
class RequestsRead:
    """Those that came, and the offset behind all that was read."""

    requests: tuple[TableRequest, ...]
    next_offset: int


class TableRequests:
    """Use as a context manager.

    Args:
        next_offset: None reads what comes from now on.
    """

    def __init__(self, settings: Settings, next_offset: int | None) -> None:
        self._settings, self._next_offset = settings, next_offset
        self._topic = progress_topic(settings.name)
        self._found: queue.SimpleQueue[RequestsRead | BaseException] = queue.SimpleQueue()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="table requests", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._is_over.set()
        self._thread.join(_END_S)

    def take(self) -> RequestsRead | None:
        """What was read since the last time; None where nothing was.

        Raises:
            OperatorError: a record that this code cannot read.
        """
        requests: list[TableRequest] = []
        last: RequestsRead | None = None
        while not self._found.empty():
            found = self._found.get()
            if isinstance(found, BaseException):
                raise found
            requests += found.requests
            last = found
        return None if last is None else RequestsRead(tuple(requests), last.next_offset)

    # In the thread.

    def _run(self) -> None:
        try:
            with PartitionLog(self._settings, self._topic, 0) as log:
                while True:
                    with suppress(RetryableError):  # who writes to Kafka notices too, and says so
                        self._look(log)
                    if self._is_over.wait(LOOK_S):
                        return
        except BaseException as error:  # told to who asks
            self._found.put(error)

    def _look(self, log: PartitionLog) -> None:
        start = self._next_offset
        next_offset = log.bounds()[1] if start is None else start
        requests = []
        for message in log.read(next_offset):
            try:
                request = request_of(self._settings.postgres.slot, message.key() or b"", message.value())
            except ProtocolError as error:
                raise unreadable_record(self._topic, error, message.offset()) from None
            if request is not None:
                requests.append(request)
            next_offset = (message.offset() or 0) + 1
        if next_offset != start:
            self._next_offset = next_offset
            self._found.put(RequestsRead(tuple(requests), next_offset))
