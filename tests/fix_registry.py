"""One schema registry for the whole run: Apicurio, which has Confluent's API. Names of topics keep tests apart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.shared_servers import shared
from walbridge.embedded.registry import SchemaRegistry


@pytest.fixture(scope="session")
def registry() -> Iterator[SchemaRegistry]:
    """The shared registry. A test that kills or stops it starts it again."""
    with shared(SchemaRegistry(), "schema registry", "registry") as running:
        yield running
