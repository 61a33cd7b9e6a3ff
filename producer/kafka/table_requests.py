"""What operators ask of tables, read from the progress topic: beside the stream, or at a start that is refused.

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
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.control.table_request import ALL_TABLES, COPY, DOUBT, TableRequest, read_until, request_of
from walbridge.schemas.errors import ProtocolError, RetryableError, unreadable_record
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import progress_topic

LOOK_S = 2.0
"""Between two looks."""
END_S = 0.5
"""How long an end waits for a look that goes on; the thread keeps no process alive."""


@dataclass(frozen=True, slots=True)
class RequestsRead:
    """Requests that came, and the offset after the last record that was read."""

    requests: tuple[TableRequest, ...]
    next_offset: int


class TableRequests:
    """Use as a context manager."""

    def __init__(self, settings: Settings, next_offset: int) -> None:
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
        self._thread.join(END_S)

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
            with PartitionLog(self._settings, self._topic, 0, self._is_over.is_set) as log:
                while True:
                    with suppress(RetryableError):  # who writes to Kafka notices too, and says so
                        self._look(log)
                    if self._is_over.wait(LOOK_S):
                        return
        except BaseException as error:  # told to who asks
            self._found.put(error)

    def _look(self, log: PartitionLog) -> None:
        read = _read(self._settings, log, self._next_offset)
        if read.next_offset != self._next_offset:
            self._next_offset = read.next_offset
            self._found.put(read)


def copy_of_all_asked(settings: Settings, progress: Progress) -> RequestsRead | None:
    """What was asked since this progress, if a copy of all tables is part of it. Nobody may be running.

    Raises:
        RetryableError: no broker answers.
        OperatorError: a record that this code cannot read.
    """
    with PartitionLog(settings, progress_topic(settings.name), 0) as log:
        # Earlier code took none. So whatever asks for all tables was written since its last record.
        read = _read(settings, log, read_until(progress) or 0)
    is_asked = any(each.relation_id == ALL_TABLES and each.kind in (COPY, DOUBT) for each in read.requests)
    return read if is_asked else None


def _read(settings: Settings, log: PartitionLog, start: int) -> RequestsRead:
    """To the end of the topic."""
    requests, next_offset = [], start
    for message in log.read(start):
        try:
            request = request_of(settings.postgres.slot, message.key() or b"", message.value())
        except ProtocolError as error:
            raise unreadable_record(progress_topic(settings.name), error, message.offset()) from None
        if request is not None:
            requests.append(request)
        next_offset = (message.offset() or 0) + 1
    return RequestsRead(tuple(requests), next_offset)
