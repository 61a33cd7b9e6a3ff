"""The options that the producer's stream is asked for."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from walbridge.producer.postgres.requirements import refuse_unfit_server, stream_options
from walbridge.schemas.errors import IsStandby, OperatorError, back_again
from walbridge.schemas.settings import Settings

VERSIONS = [120022, 130023, 140024, 150019, 160015, 170011, 180006]


def settings(**postgres: Any) -> Settings:
    return Settings.model_validate({"name": "p", "postgres": {"publication": 'My "pub"', **postgres}})


def test_standby_is_waited_for_until_it_is_promoted_and_then_its_primary_is_asked_for() -> None:
    connection = SimpleNamespace(
        info=SimpleNamespace(server_version=VERSIONS[-1]),
        execute=lambda *_: SimpleNamespace(fetchall=lambda: [(True,)]),
    )
    with pytest.raises(IsStandby, match="is a standby") as standby:
        refuse_unfit_server(cast(Any, connection), settings())
    assert back_again(standby.value, "start the server").startswith("name its primary in [postgres] dsn")


@pytest.mark.parametrize("server_version", VERSIONS)
def test_transactions_are_streamed_where_the_server_can_and_nothing_else_is_asked_for(server_version: int) -> None:
    protocol = {"proto_version": "2", "streaming": "on"} if server_version >= 140000 else {"proto_version": "1"}

    assert stream_options(settings(), server_version) == {"publication_names": '"My ""pub"""'} | protocol


def test_messages_are_not_streamed_unless_streaming_is_set_which_is_refused() -> None:
    """A savepoint's message could not be told from the transaction's."""
    assert "streaming" not in stream_options(settings(messages=True), VERSIONS[-1])

    for streaming in ("on", "parallel"):
        with pytest.raises(OperatorError, match="exclude each other"):
            stream_options(settings(messages=True, streaming=streaming), VERSIONS[-1])


@pytest.mark.parametrize(
    ("asked", "oldest"),
    [
        ({"streaming": "on"}, 140000),
        ({"binary": True}, 140000),
        ({"messages": True}, 140000),
        ({"two_phase": True}, 150000),
        ({"streaming": "parallel"}, 160000),
        ({"origin": "none"}, 160000),
    ],
)
@pytest.mark.parametrize("server_version", VERSIONS)
def test_setting_that_the_server_cannot_honour_is_refused_with_the_version_that_can(
    asked: dict[str, Any], oldest: int, server_version: int
) -> None:
    ((name, _),) = asked.items()
    if server_version >= oldest:
        assert name in stream_options(settings(**asked), server_version)
        return
    with pytest.raises(OperatorError, match=f"{name} = .* needs Postgres {oldest // 10000} or newer"):
        stream_options(settings(**asked), server_version)


def test_server_that_is_too_old_is_refused() -> None:
    with pytest.raises(OperatorError, match=r"Postgres 11\.22"):
        stream_options(settings(), 110022)
