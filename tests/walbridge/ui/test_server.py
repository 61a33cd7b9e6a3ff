"""Who may read the page, and what is answered."""

from __future__ import annotations

import base64
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.walbridge.ui.statuses import STREAMING
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.ui.page import View
from walbridge.ui.server import Pages, UiServer, is_loopback, may_read
from walbridge.ui.verb import TOKEN_VARIABLE, read_token, serve

TOKEN = "0123456789abcdef-long"


def asked(server: UiServer, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, dict(answer.headers), answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read().decode()


@pytest.fixture
def pages() -> Pages:
    return Pages(lambda: [View("shop", STREAMING), View("crm")])


@pytest.fixture
def server(pages: Pages) -> Iterator[UiServer]:
    with UiServer("127.0.0.1", 0, pages, None) as made:
        yield made


@pytest.mark.parametrize(
    ("path", "status", "content_type"),
    [
        ("/", 200, "text/html"),
        ("/p/shop", 200, "text/html"),
        ("/p/crm?x=1", 200, "text/html"),
        ("/style.css", 200, "text/css"),
        ("/page.js", 200, "text/javascript"),
        ("/healthz", 200, "text/plain"),
        ("/p/other", 404, "text/plain"),
        ("/../verb.py", 404, "text/plain"),
    ],
)
def test_path_is_answered_under_a_strict_policy(server: UiServer, path: str, status: int, content_type: str) -> None:
    code, headers, body = asked(server, path)

    assert (code, headers["Content-Type"]) == (status, f"{content_type}; charset=utf-8")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; ")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")
    assert body


def test_nothing_can_be_changed(server: UiServer) -> None:
    assert {asked(server, "/", method)[0] for method in ("POST", "PUT", "DELETE", "PATCH")} == {501}
    assert asked(server, "/", "HEAD")[::2] == (200, "")


def test_name_that_is_not_this_machines_is_refused_without_a_token(server: UiServer) -> None:
    assert asked(server, "/", Host="attacker.example")[0] == 421
    assert asked(server, "/", Host="localhost:9480")[0] == 200


def test_token_is_asked_for_and_taken_as_bearer_or_password(pages: Pages) -> None:
    with UiServer("127.0.0.1", 0, pages, TOKEN) as server:
        code, headers, body = asked(server, "/")
        assert (code, headers["WWW-Authenticate"].split()[0], "shop" in body) == (401, "Basic", False)
        code, headers, _ = asked(server, "/", **{"X-Refresh": "1"})
        assert (code, "WWW-Authenticate" in headers) == (401, False)
        assert asked(server, "/style.css")[0] == 401
        assert asked(server, "/", Authorization=f"Bearer {TOKEN}", Host="walbridge.internal")[0] == 200
        basic = base64.b64encode(f"anybody:{TOKEN}".encode()).decode()
        assert asked(server, "/p/shop", Authorization=f"Basic {basic}")[0] == 200


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer x",
        "Basic",
        "Basic !",
        "Basic /w==",
        "Basic eDp5",
        "Basic \u00e9",
        "Bearer \u00e9",
        f"Digest {TOKEN}",
        TOKEN,
    ],
)
def test_anything_but_the_token_is_refused(authorization: str) -> None:
    assert not may_read(TOKEN, authorization, "localhost")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_this_machine_is_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "example.com", ""])
def test_what_others_reach_is_not(host: str) -> None:
    assert not is_loopback(host)


def test_other_address_than_loopback_is_refused_without_a_token() -> None:
    with pytest.raises(OperatorError, match="no token that readers must know") as refused:
        serve([Settings()], host="0.0.0.0", port=0, interval_s=10, token_file=None, say=print)
    assert "--token-file" in (refused.value.remedy or "")


def test_two_files_of_one_pipeline_are_refused() -> None:
    with pytest.raises(OperatorError, match="two settings files"):
        serve([Settings(), Settings()], host="127.0.0.1", port=0, interval_s=10, token_file=None, say=print)


def test_port_that_is_taken_is_refused(server: UiServer, pages: Pages) -> None:
    with pytest.raises(OperatorError, match=f"cannot listen on 127.0.0.1 port {server.port}"):
        UiServer("127.0.0.1", server.port, pages, None)


def test_token_comes_from_its_file_else_from_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")

    assert read_token(file, {TOKEN_VARIABLE: "x" * 20}) == TOKEN
    assert read_token(None, {TOKEN_VARIABLE: "x" * 20}) == "x" * 20
    assert read_token(None, {}) is None


@pytest.mark.parametrize("text", [None, "", "short", "\xff"])
def test_token_that_is_none_is_refused_and_not_shown(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "token"
    if text is not None:
        file.write_bytes(text.encode("latin-1"))

    with pytest.raises(OperatorError) as refused:
        read_token(file, {})
    assert "short" not in str(refused.value)
