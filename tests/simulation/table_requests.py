"""What is asked of tables, read in the turn of the session: stands for the thread of ``TableRequests``.

A thread beside the session would step the world between two of its steps, or not, as the machine has it: one seed
would be several runs.
"""

from contextlib import ExitStack, suppress
from typing import Any, Self

from tests.simulation.world import World
from walbridge.producer.kafka.partition_log import PartitionLog
from walbridge.producer.kafka.table_requests import LOOK_S, RequestsRead, TableRequests
from walbridge.schemas.errors import RetryableError
from walbridge.schemas.settings import Settings


class RequestsInTurn(TableRequests):
    """The same looks at the same topic, as far apart by the simulated clock."""

    def __init__(self, world: World, settings: Settings, next_offset: int) -> None:
        super().__init__(settings, next_offset)
        self._world, self._look_at_s = world, 0.0
        self._ending = ExitStack()

    def __enter__(self) -> Self:
        self._log = self._ending.enter_context(PartitionLog(self._settings, self._topic, 0))
        return self

    def __exit__(self, *exception: Any) -> None:
        self._ending.close()

    def take(self) -> RequestsRead | None:
        if self._world.now_s >= self._look_at_s:
            with suppress(RetryableError):
                self._look(self._log)
            self._look_at_s = self._world.now_s + LOOK_S
        return super().take()
