"""The lake that a test makes by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.walbridge.verify.handmade_lake import HandmadeLake


@pytest.fixture
def handmade(lake: Path) -> HandmadeLake:
    return HandmadeLake(lake)
