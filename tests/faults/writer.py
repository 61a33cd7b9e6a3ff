"""Small transactions on table ``t (id int PRIMARY KEY, v int)``, until left."""

from __future__ import annotations

import threading

from tests.fix_producer import ProducerUnderTest
from tests.wait import wait_until


class Writer:
    """Writes in a thread of its own."""

    def __init__(self, producer: ProducerUnderTest) -> None:
        self._producer = producer
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.count = 0

    def _write(self) -> None:
        with self._producer.database.connect() as connection:
            while not self._stop.wait(0.005):
                self.count += 1
                connection.execute("INSERT INTO t VALUES (%s, 0)", (self.count,))
                connection.execute("UPDATE t SET v = v + 1 WHERE id = %s", (self.count // 2,))

    def wait_for(self, more: int) -> None:
        """Until so many more transactions are written."""
        wanted = self.count + more
        wait_until(lambda: self.count >= wanted, f"{more} more writes")

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()
