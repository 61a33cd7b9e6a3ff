"""The options that the producer's stream is asked for."""

import pytest

from producer.postgres.requirements import stream_options
from schemas.errors import OperatorError
from schemas.settings import Settings

SETTINGS = Settings.model_validate({"name": "p", "postgres": {"publication": 'My "pub"'}})


@pytest.mark.parametrize("server_version", [120022, 130023, 140024, 150019, 160015, 170011, 180006])
def test_every_server_is_asked_for_the_same_today(server_version: int) -> None:
    assert stream_options(SETTINGS, server_version) == {"proto_version": "1", "publication_names": '"My ""pub"""'}


def test_server_that_is_too_old_is_refused() -> None:
    with pytest.raises(OperatorError, match=r"Postgres 11\.22"):
        stream_options(SETTINGS, 110022)
