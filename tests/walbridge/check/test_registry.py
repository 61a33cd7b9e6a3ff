"""The schema registry is asked what a start of the producer would ask."""

from __future__ import annotations

import pytest

from tests.producer.registry.answering import FirstRegistered, answering
from tests.producer.relations.test_registry_ids import ORDERS, framed_by
from walbridge.check.finding import ok
from walbridge.check.registry import AREA, registry
from walbridge.check.steps import checks_of
from walbridge.schemas.errors import OperatorError, RegistryAway
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Topics


def settings(url: str) -> Settings:
    return Settings(topics=Topics(registry_url=url))


def test_pipeline_without_a_registry_is_told_nothing_of_one() -> None:
    """Neither that it answers, nor that it was not asked while Kafka is away."""
    assert list(registry(Settings(), ())) == []
    assert AREA not in [area for area, *_ in checks_of(Settings())]
    assert AREA in [area for area, *_ in checks_of(settings("http://127.0.0.1:1"))]


def test_registry_that_answers_is_well() -> None:
    with answering(FirstRegistered()) as url:
        assert list(registry(settings(url), ())) == [ok("registry", f"{url} answers")]


def test_registry_that_is_away_is_told() -> None:
    with pytest.raises(RegistryAway, match="does not answer"):
        list(registry(settings("http://127.0.0.1:1"), ()))


def test_registry_that_lost_the_schemas_of_a_table_is_told() -> None:
    known = framed_by(FirstRegistered(), ORDERS)

    with answering(FirstRegistered()) as url, pytest.raises(OperatorError, match="does not know it"):
        list(registry(settings(url), known))
