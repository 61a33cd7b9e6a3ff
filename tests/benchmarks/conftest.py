"""Speed is measured with a broker that has all its threads."""

from __future__ import annotations

from collections.abc import Mapping

import pytest


@pytest.fixture(scope="session")
def broker_settings() -> Mapping[str, str]:
    return {}
