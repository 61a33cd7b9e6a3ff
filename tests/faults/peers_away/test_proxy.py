"""The proxy itself: each fault is what its name says, on sockets without any protocol."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest

from tests.faults.proxy import TO_CLIENT, TO_SERVER, TcpProxy
from tests.wait import wait_until


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):
            while data := self.request.recv(4096):
                self.request.sendall(data)


@pytest.fixture
def proxy() -> Iterator[TcpProxy]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with TcpProxy(server.server_address[1]) as made:
            yield made
        server.shutdown()


def _connect(proxy: TcpProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=30)


def _echoed(there: socket.socket, data: bytes = b"ping", timeout_s: float = 30) -> bytes:
    there.settimeout(timeout_s)
    there.sendall(data)
    return there.recv(len(data))


def test_bytes_pass_both_ways(proxy: TcpProxy) -> None:
    with _connect(proxy) as there:
        assert _echoed(there) == b"ping"
    assert proxy.passed == {TO_SERVER: 4, TO_CLIENT: 4}


def test_delayed_bytes_come_late_and_slow_ones_slowly(proxy: TcpProxy) -> None:
    with _connect(proxy) as there:
        proxy.delay(0.1)
        began_s = time.monotonic()
        assert _echoed(there) == b"ping"
        assert time.monotonic() - began_s >= 0.2
        proxy.slow(bytes_per_s=40)
        began_s = time.monotonic()
        assert _echoed(there) == b"ping"
        assert time.monotonic() - began_s >= 0.2


def test_cut_connections_end_in_order_and_new_ones_at_once_until_it_heals(proxy: TcpProxy) -> None:
    with _connect(proxy) as there:
        assert _echoed(there) == b"ping"
        proxy.cut()
        assert there.recv(1) == b""
    # It may end before connect() has returned.
    with pytest.raises(ConnectionError), _connect(proxy) as there:
        _echoed(there)
    proxy.heal()
    with _connect(proxy) as there:
        assert _echoed(there) == b"ping"


def test_reset_connections_end_with_an_error(proxy: TcpProxy) -> None:
    with _connect(proxy) as there:
        assert _echoed(there) == b"ping"
        proxy.cut(reset=True)
        with pytest.raises(ConnectionResetError):
            there.recv(1)


def test_half_open_connection_stays_and_is_silent_also_when_the_way_is_healed(proxy: TcpProxy) -> None:
    with _connect(proxy) as old:
        assert _echoed(old) == b"ping"
        proxy.half_open()
        with pytest.raises(TimeoutError):
            _echoed(old, timeout_s=0.2)
        proxy.heal()
        with pytest.raises(TimeoutError):
            _echoed(old, timeout_s=0.2)
    with _connect(proxy) as new:
        assert _echoed(new) == b"ping"


@pytest.mark.parametrize(("direction", "passed"), [(TO_SERVER, (8, 4)), (TO_CLIENT, (4, 4))])
def test_one_direction_passes_while_the_other_is_silent(
    proxy: TcpProxy, direction: str, passed: tuple[int, int]
) -> None:
    with _connect(proxy) as there:
        assert _echoed(there) == b"ping"
        proxy.one_way(direction)
        with pytest.raises(TimeoutError):
            _echoed(there, timeout_s=0.2)
        # Nobody tells when a byte has gone where no answer comes from.
        wait_until(lambda: (proxy.passed[TO_SERVER], proxy.passed[TO_CLIENT]) == passed, f"{passed} bytes to pass")
