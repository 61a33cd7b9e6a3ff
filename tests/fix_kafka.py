"""One Kafka broker for the whole run, and a pipeline name of its own for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from walbridge.embedded.kafka import KafkaBroker


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """The shared broker. A test that kills or stops it starts it again."""
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture
def pipeline_name() -> str:
    """A name nobody used before, so that no topic, slot or transactional id is shared."""
    return f"t{uuid.uuid4().hex[:10]}"
