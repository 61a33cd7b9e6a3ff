"""A server on loopback that answers as a test says: what no real registry does when it is asked to."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Asked = tuple[str, str, Any]
"""Method, path, JSON body."""
Answer = tuple[int, Any]
"""Status, JSON body; bytes are sent as they are."""


@contextmanager
def answering(
    answer: Callable[[Asked], Answer], certificate: Path | None = None, authorization: str | None = None
) -> Iterator[str]:
    """The address of a server that answers so until the block ends.

    Args:
        certificate: a PEM file; with it the server speaks TLS, and asks clients for the same certificate.
        authorization: who sends another one is not let in.
    """

    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            if ended.is_set():
                self.close_connection = True
                return
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            is_let_in = authorization in (None, self.headers.get("Authorization"))
            status, answered = answer((self.command, self.path, body)) if is_let_in else (401, {})
            data = answered if isinstance(answered, bytes) else json.dumps(answered).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def handle(self) -> None:
            """A client that does not trust us ends the connection in its handshake."""
            with suppress(ssl.SSLError, ConnectionError):
                super().handle()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            context.load_verify_locations(certificate)
            context.verify_mode = ssl.CERT_REQUIRED
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http{'' if certificate is None else 's'}://127.0.0.1:{server.server_port}"
        finally:
            ended.set()  # connections that are kept end, too
            server.shutdown()
            thread.join()


class FirstRegistered:
    """Gives each schema the next id, as a registry does; keeps what it was asked."""

    def __init__(self, first_id: int = 1) -> None:
        self._first_id = first_id
        self.ids: dict[str, int] = {}
        self.known: set[tuple[str, str]] = set()
        self.asked: list[Asked] = []

    def __call__(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        method, path, body = asked
        if method == "GET":
            return 200, ["AVRO"]
        schema = body["schema"]
        subject = path.split("/")[2]
        if path.endswith("/versions"):
            self.known.add((subject, schema))
            return 200, {"id": self.ids.setdefault(schema, self._first_id + len(self.ids))}
        if (subject, schema) not in self.known:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return 200, {"id": self.ids[schema]}
