"""One browser for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.walbridge.ui.browser import DESKTOP, Browser, started
from walbridge.ui import page


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with started(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def browser(chromium: Browser, monkeypatch: pytest.MonkeyPatch) -> Browser:
    """On a desk, at a blank page; pages are refreshed several times a second."""
    monkeypatch.setattr(page, "REFRESH_S", 0.2)
    chromium.open("about:blank")
    chromium.size(*DESKTOP)
    chromium.prefer("light")
    chromium.said()
    chromium.asked()
    return chromium
