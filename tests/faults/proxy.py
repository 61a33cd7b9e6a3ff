"""A TCP proxy that breaks the way networks break: slow, cut, reset, or silent in one or both directions.

In: the port of a real server on loopback. Out: a port of its own, and a fault that is switched on
and off under the connections' feet. A connection that was ever made silent stays so until one end
closes it, as after a router has forgotten it: ``heal`` lets new ones through, so the programs must
notice by themselves. Both ends' kernels are alive and acknowledge, which keepalives cannot tell
from a healthy path.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.wait import wait_until
from walbridge.embedded.server_process import free_port

CHUNK_BYTES = 64 * 1024
LOOP_S = 60.0
TO_SERVER, TO_CLIENT = "to_server", "to_client"
_RST = struct.pack("ii", 1, 0)  # linger for 0 s: closing sends RST


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to bytes. ``silent``: directions in which nothing passes any more."""

    delay_s: float = 0.0
    bytes_per_s: float = 0.0
    silent: frozenset[str] = frozenset()
    refuses: bool = False


HEALTHY = Fault()
HALF_OPEN = Fault(silent=frozenset({TO_SERVER, TO_CLIENT}))


class _Connection:
    """One client's connection, with the one to the server behind it."""

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self.writers = [client]
        self.silent: set[str] = set()

    def end(self, *, reset: bool = False) -> None:
        for writer in self.writers:
            if reset:
                sock: socket.socket = writer.get_extra_info("socket")
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST)
                writer.transport.abort()
            else:
                writer.close()


class TcpProxy:
    """Use as a context manager. Methods may be called from any thread."""

    def __init__(self, target_port: int, port: int = 0) -> None:
        self.port = port or free_port()
        self.passed = {TO_SERVER: 0, TO_CLIENT: 0}
        """Bytes so far."""
        self.accepted = 0
        self._target_port = target_port
        self._fault = HEALTHY
        self._connections: set[_Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def heal(self) -> None:
        """New connections work, and slow ones are quick again; silent ones stay silent."""
        self._switch(HEALTHY)

    def delay(self, seconds: float) -> None:
        """Each piece comes so much later, in both directions."""
        self._switch(Fault(delay_s=seconds))

    def slow(self, bytes_per_s: float) -> None:
        self._switch(Fault(bytes_per_s=bytes_per_s))

    def half_open(self) -> None:
        """Connections stay, and new ones are accepted; nothing passes."""
        self._switch(HALF_OPEN)

    def one_way(self, direction: str) -> None:
        """Bytes pass in this direction only."""
        self._switch(Fault(silent=HALF_OPEN.silent - {direction}))

    def cut(self, *, reset: bool = False) -> None:
        """End all connections, and new ones at once, in order (FIN) or not (RST)."""
        self._switch(Fault(refuses=True))
        self._on_loop(lambda: self._end_all(reset=reset))

    def _end_all(self, *, reset: bool) -> None:
        for connection in self._connections:
            connection.end(reset=reset)

    def __enter__(self) -> Self:
        self._thread.start()
        listening = asyncio.start_server(self._accept, "127.0.0.1", self.port, limit=CHUNK_BYTES)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(LOOP_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.get_loop().call_soon_threadsafe(self._server.close)
        self.cut(reset=True)  # also what was accepted just before and is not among the connections yet
        wait_until(lambda: not self._connections, "the proxy's connections to end")
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LOOP_S)
        self._loop.close()

    def _switch(self, fault: Fault) -> None:
        def set_fault() -> None:
            self._fault = fault
            for connection in self._connections:
                connection.silent |= fault.silent

        self._on_loop(set_fault)

    def _on_loop(self, action: Callable[[], None]) -> None:
        async def act() -> None:
            action()

        asyncio.run_coroutine_threadsafe(act(), self._loop).result(LOOP_S)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(writer)
        connection.silent |= self._fault.silent
        self.accepted += 1
        if self._fault.refuses:
            connection.end(reset=True)
            return
        self._connections.add(connection)
        try:
            there, server = await asyncio.open_connection("127.0.0.1", self._target_port, limit=CHUNK_BYTES)
            connection.writers.append(server)
            pumps = self._pump(connection, TO_SERVER, reader, server), self._pump(connection, TO_CLIENT, there, writer)
            await asyncio.gather(*pumps)
        except OSError:
            pass
        finally:
            connection.end()
            self._connections.discard(connection)

    async def _pump(
        self, connection: _Connection, direction: str, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        while data := await source.read(CHUNK_BYTES):
            fault = self._fault
            wait_s = fault.delay_s + (len(data) / fault.bytes_per_s if fault.bytes_per_s else 0)
            if wait_s:
                await asyncio.sleep(wait_s)
            if direction in connection.silent:
                continue  # lost; what the peer has sent after it must not be taken for the next bytes
            self.passed[direction] += len(data)
            sink.write(data)
            await sink.drain()
        # An end in order is told to the other side, unless nothing is told any more.
        if direction not in connection.silent:
            connection.end()


BREAKING: dict[str, Callable[[TcpProxy], None]] = {
    "half-open": TcpProxy.half_open,
    "to the server only": lambda proxy: proxy.one_way(TO_SERVER),
    "to the client only": lambda proxy: proxy.one_way(TO_CLIENT),
    "cut": TcpProxy.cut,
    "reset": lambda proxy: proxy.cut(reset=True),
}
"""Faults that end a connection sooner or later, by name."""
HINDERING: dict[str, Callable[[TcpProxy], None]] = {
    "delayed": lambda proxy: proxy.delay(0.05),
    "slow": lambda proxy: proxy.slow(bytes_per_s=200_000),
}
"""Faults that a connection lives through."""
