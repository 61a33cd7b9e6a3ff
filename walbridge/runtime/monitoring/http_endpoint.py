"""The HTTP endpoint of a program, read only: ``/metrics`` and ``/healthz``.

In: a registry of metrics, and a function that returns the health. Out: metrics in Prometheus'
text format; the health as JSON, with status 200 or 503. Threads of its own answer, so that it
answers also while the program's main loop hangs. Everything else is 404 or 501: it shows no
settings, and nothing can be changed through it.
"""

import json
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from walbridge.runtime.monitoring.health import Health
from walbridge.schemas.errors import OperatorError

CLIENT_TIMEOUT_S = 5
"""How long a client may take for its request; after that its connection is closed."""

CLOSE_POLL_S = 0.05
"""How often the server looks whether it is to close: every program waits for that when it ends."""

Answer = tuple[HTTPStatus, str, bytes]


class HttpEndpoint:
    """Listens as soon as it is made. A context manager: closed on exit.

    Args:
        port: 0 takes a free one.
        setting: what the remedy names when the port cannot be had.

    Raises:
        OperatorError: the port is taken, or the host is not one of this machine's.
    """

    def __init__(
        self, host: str, port: int, registry: CollectorRegistry, health: Callable[[], Health], setting: str
    ) -> None:
        routes: dict[str, Callable[[], Answer]] = {
            "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry)),
            "/healthz": lambda: _health_answer(health()),
        }
        try:
            self._server = QuietServer((host, port), _handler(routes))
        except (OSError, UnicodeError) as error:  # a name that no resolver takes
            raise OperatorError(
                f"cannot listen on {host} port {port} for /metrics: {getattr(error, 'strerror', None) or error}",
                remedy=f"set [metrics] {setting} to a free port, or to 0 for any, and [metrics] host to an address of "
                "this machine; or stop what listens there",
            ) from None
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(CLOSE_POLL_S,), name="http", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _health_answer(health: Health) -> Answer:
    body: dict[str, Any] = {
        "healthy": not health.problem,
        "state": health.state,
        "since_progress_s": round(health.since_progress_s, 1),
    }
    if health.problem:
        body["problem"] = health.problem
    status = HTTPStatus.SERVICE_UNAVAILABLE if health.problem else HTTPStatus.OK
    return status, "application/json", json.dumps(body).encode() + b"\n"


class QuietServer(ThreadingHTTPServer):
    """A thread for each client; none of them keeps the program from ending."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: a client that goes away is no error."""


def _handler(routes: dict[str, Callable[[], Answer]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = CLIENT_TIMEOUT_S
        server_version = "walbridge"
        sys_version = ""

        def do_GET(self) -> None:
            route = routes.get(self.path.partition("?")[0])
            status, content_type, body = route() if route else (HTTPStatus.NOT_FOUND, "text/plain", b"not found\n")
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - the base class looks for these names

        def log_message(self, *_: Any) -> None:
            """Log nothing: the endpoint is asked every few seconds."""

    return Handler
