"""Chromium without a window, driven through chromedriver by the W3C's WebDriver protocol, and what tests ask of it.

In: a folder for what it writes. Out: pages as people meet them: what is shown and focused, what a screen reader is
told, what was asked of whom. Only the standard library: these few commands need no client of hundreds.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from walbridge.embedded.server_process import ServerProcess

CHROMIUM = shutil.which("chromium")
CHROMEDRIVER = shutil.which("chromedriver")
START_S, ANSWER_S = 60.0, 60.0
TAB, ENTER = "\ue004", "\ue007"
DESKTOP, PHONE = (1280, 900), (390, 844)
_LISTENS = re.compile(r"started successfully on port (\d+)\.")
_ARGUMENTS = (
    "--headless=new",
    "--no-first-run",
    "--no-proxy-server",
    # What is asked of others is to be the page's doing alone.
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # Containers' /dev/shm is small, and as root there is no sandbox.
    *("--disable-dev-shm-usage", "--no-sandbox"),
)

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None or CHROMEDRIVER is None,
    reason="chromium or chromedriver is not installed: they are in Debian's chromium and chromium-driver",
)


class Browser:
    """One session. ``address``: of chromedriver."""

    def __init__(self, address: str, profile: Path) -> None:
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._address = f"{address}/session"
        options = {"binary": CHROMIUM, "args": [*_ARGUMENTS, f"--user-data-dir={profile}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        session = self._ask("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self._address += f"/{session['sessionId']}"

    def close(self) -> None:
        self._ask("DELETE", "")

    def open(self, url: str) -> None:
        """Return when the page is loaded, its scripts and styles included."""
        self._ask("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: object) -> Any:
        """What the body of a function returns in the page."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": arguments})

    def command(self, method: str, **parameters: object) -> Any:
        """One of the DevTools protocol."""
        return self._ask("POST", "/goog/cdp/execute", {"cmd": method, "params": parameters})

    def size(self, width: int, height: int, *, phone: bool = False) -> None:
        """Of the window. A phone asks the page how wide it is to be drawn, and its scroll bars take no room."""
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone
        )

    def prefer(self, scheme: str) -> None:
        """``light`` or ``dark``."""
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def press(self, key: str) -> None:
        """Down and up again."""
        actions = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def said(self) -> list[str]:
        """Warnings and errors of the console since it was asked last, those of the page's security policy too."""
        return [each["message"] for each in self._log("browser") if each["level"] in ("WARNING", "SEVERE")]

    def asked(self) -> list[str]:
        """URLs that were asked for since the last time."""
        messages = [json.loads(each["message"])["message"] for each in self._log("performance")]
        sent = [each["params"]["request"] for each in messages if each["method"] == "Network.requestWillBeSent"]
        return [str(each["url"]) for each in sent]

    def read_aloud(self) -> list[tuple[str, str]]:
        """Role and name of whatever a screen reader is told of, in the order of the page."""
        nodes = self.command("Accessibility.getFullAXTree")["nodes"]
        known = {node["nodeId"]: node for node in nodes}

        def walk(node: dict[str, Any]) -> Iterator[tuple[str, str]]:
            if not node.get("ignored"):
                yield node["role"]["value"], node.get("name", {}).get("value", "")
            for child in node.get("childIds", []):
                yield from walk(known[child]) if child in known else ()

        return list(walk(nodes[0]))

    def picture(self, file: Path) -> None:
        """The whole page as PNG, below the window's end too."""
        taken = self.command("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(taken["data"]))

    def _log(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._ask("POST", "/se/log", {"type": kind})
        return found

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._address}{path}", data, method=method)
        try:
            with self._opener.open(request, timeout=ANSWER_S) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(json.load(error)["value"]["message"]) from None


@contextmanager
def started(folder: Path) -> Iterator[Browser]:
    """A browser that knows nothing yet, and ends with us."""
    log = folder / "chromedriver.log"
    # A socket's path has 107 bytes at most (unix(7)), and Chromium makes one in its temporary folder.
    with tempfile.TemporaryDirectory(prefix="chromium-", dir="/tmp") as short:
        environ = os.environ | {"HOME": str(folder), "TMPDIR": short}
        with _driven(log, environ, folder / "profile") as browser:
            yield browser


@contextmanager
def _driven(log: Path, environ: dict[str, str], profile: Path) -> Iterator[Browser]:
    assert CHROMEDRIVER is not None
    # By SIGTERM it ends the browser, too.
    process = ServerProcess(
        "chromedriver", [CHROMEDRIVER, "--port=0"], log, environ=environ, death_signal=signal.SIGTERM
    )
    try:
        process.wait_until(lambda: _LISTENS.search(log.read_text()) is not None, START_S)
        found = _LISTENS.search(log.read_text())
        assert found is not None
        browser = Browser(f"http://127.0.0.1:{found[1]}", profile)
        try:
            yield browser
        finally:
            browser.close()
    finally:
        process.stop([signal.SIGTERM], 10)
