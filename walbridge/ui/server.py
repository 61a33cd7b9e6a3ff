"""The page over HTTP: read only, to whoever is on this machine or has the token.

In: views, an address, a token. Out: a page for each pipeline, its style and script. There is nothing to change, so
nothing but GET and HEAD is answered. Without a token only requests that name this machine are: another name may lead
here through a browser that shows somebody else's page (DNS rebinding).
"""

import base64
import hmac
import ipaddress
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from socket import AF_INET6
from typing import Self

from walbridge.runtime.monitoring.http_endpoint import CLIENT_TIMEOUT_S, QuietServer
from walbridge.schemas.errors import OperatorError
from walbridge.ui.page import View, list_page, pipeline_page

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
ASSETS = {"/style.css": "text/css", "/page.js": "text/javascript"}
_HTML = "text/html"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Pages:
    """Answers to paths. ``views``: returns the current view of each pipeline."""

    def __init__(self, views: Callable[[], Sequence[View]]) -> None:
        self._views = views
        self._assets = {path: files("walbridge.ui").joinpath(path[1:]).read_bytes() for path in ASSETS}

    def answer(self, path: str) -> tuple[HTTPStatus, str, bytes]:
        """Status, content type and body of the answer to a path."""
        if path in self._assets:
            return HTTPStatus.OK, ASSETS[path], self._assets[path]
        views, now = self._views(), datetime.now(UTC)
        if path == "/":
            page = pipeline_page(views[0], views, now) if len(views) == 1 else list_page(views, now)
            return HTTPStatus.OK, _HTML, page.encode()
        view = next((each for each in views if path == f"/p/{each.name}"), None)
        if view is None:
            return HTTPStatus.NOT_FOUND, "text/plain", b"not found\n"
        return HTTPStatus.OK, _HTML, pipeline_page(view, views, now).encode()


class UiServer:
    """Listens as soon as it is made. A context manager: closed on exit.

    Args:
        port: 0 takes a free one.
        token: None where only this machine may read.

    Raises:
        OperatorError: the port is taken, or the host is not one of this machine's.
    """

    def __init__(self, host: str, port: int, pages: Pages, token: str | None) -> None:
        server = type("_Server6", (QuietServer,), {"address_family": AF_INET6}) if ":" in host else QuietServer
        try:
            self._server = server((host, port), _handler(pages, token))
        except (OSError, UnicodeError) as error:
            raise OperatorError(
                f"cannot listen on {host} port {port}: {getattr(error, 'strerror', None) or error}",
                remedy="name a free port with --port, or 0 for any, and an address of this machine with --host",
            ) from None
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="http", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def may_read(token: str | None, authorization: str, host: str) -> bool:
    """Whether a request with these headers is answered: with the token as bearer, or as the password of any user."""
    if token is None:
        return is_loopback(_without_port(host))
    kind, _, given = authorization.partition(" ")
    if kind.lower() == "basic":
        try:
            given = base64.b64decode(given, validate=True).decode().partition(":")[2]
        except ValueError:  # no base64, no ASCII, no UTF-8
            return False
    elif kind.lower() != "bearer":
        return False
    return hmac.compare_digest(given.strip().encode(), token.encode())


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _handler(pages: Pages, token: str | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = CLIENT_TIMEOUT_S
        server_version = "walbridge"
        sys_version = ""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/healthz":
                self._send(HTTPStatus.OK, "text/plain", b"ok\n")
            elif may_read(token, self.headers.get("Authorization", ""), self.headers.get("Host", "")):
                self._send(*pages.answer(path))
            elif token is None:
                self._send(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", b"ask for localhost\n")
            else:
                self._send(HTTPStatus.UNAUTHORIZED, "text/plain", b"the token is the password, of any user\n")

        do_HEAD = do_GET  # noqa: N815 - the base class looks for these names

        def _send(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
            self.send_response(status)
            for name, value in HEADERS.items():
                self.send_header(name, value)
            # An open page shows this itself; with this header the browser would ask for a password instead.
            if status == HTTPStatus.UNAUTHORIZED and "X-Refresh" not in self.headers:
                self.send_header("WWW-Authenticate", 'Basic realm="walbridge", charset="UTF-8"')
            self.send_header("Content-Type", f"{content_type}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing: a page asks every few seconds."""

    return Handler
