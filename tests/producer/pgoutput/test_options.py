"""Options of START_REPLICATION: never one that the server refuses, never one that nothing needs."""

from itertools import product
from typing import Literal

import pytest

from walbridge.producer.pgoutput.options import StreamWishes, start_options
from walbridge.schemas.errors import OperatorError

VERSIONS = {12: 120022, 13: 130023, 14: 140024, 15: 150019, 16: 160015, 17: 170011, 18: 180006, 19: 190000}
PUBLICATION = '"pub"'

# Written from the manuals of each version: the options that its pgoutput knows, and its newest protocol.
KNOWN = {
    12: {"proto_version", "publication_names"},
    13: {"proto_version", "publication_names"},
    14: {"proto_version", "publication_names", "binary", "messages", "streaming"},
    15: {"proto_version", "publication_names", "binary", "messages", "streaming", "two_phase"},
    16: {"proto_version", "publication_names", "binary", "messages", "streaming", "two_phase", "origin"},
}
PROTOCOL_MAX = {12: 1, 13: 1, 14: 2, 15: 3, 16: 4}

_STREAMING: tuple[Literal["off", "on", "parallel"], ...] = ("off", "on", "parallel")
_ORIGINS: tuple[Literal["any", "none"], ...] = ("any", "none")
_EITHER = (False, True)
ALL_WISHES = [
    StreamWishes(binary, messages, streaming, two_phase, origin)
    for binary, messages, streaming, two_phase, origin in product(_EITHER, _EITHER, _STREAMING, _EITHER, _ORIGINS)
]
# wish, oldest server, protocol, what is sent, what such a server is offered instead
SINGLE: dict[str, tuple[StreamWishes, int, int, dict[str, str], str]] = {
    "binary": (StreamWishes(binary=True), 14, 1, {"binary": "true"}, "binary = false"),
    "messages": (StreamWishes(messages=True), 14, 1, {"messages": "true"}, "messages = false"),
    "streaming": (StreamWishes(streaming="on"), 14, 2, {"streaming": "on"}, 'streaming = "off"'),
    "parallel": (StreamWishes(streaming="parallel"), 16, 4, {"streaming": "parallel"}, 'streaming = "o(n|ff)"'),
    "two_phase": (StreamWishes(two_phase=True), 15, 3, {"two_phase": "true"}, "two_phase = false"),
    "origin": (StreamWishes(origin="none"), 16, 1, {"origin": "none"}, 'origin = "any"'),
}


@pytest.mark.parametrize("major", VERSIONS)
def test_without_wishes_every_server_is_asked_for_protocol_1_and_the_publication(major: int) -> None:
    expected = {"proto_version": "1", "publication_names": PUBLICATION}

    assert list(expected.items()) == list(start_options(["pub"], VERSIONS[major], StreamWishes()).items())


@pytest.mark.parametrize("major", VERSIONS)
@pytest.mark.parametrize(("wishes", "oldest", "protocol", "sent", "offered"), SINGLE.values(), ids=SINGLE)
def test_wish_is_asked_for_where_the_server_can_and_refused_where_not(
    wishes: StreamWishes, oldest: int, protocol: int, sent: dict[str, str], offered: str, major: int
) -> None:
    if major >= oldest:
        expected = {"proto_version": str(protocol), "publication_names": PUBLICATION} | sent
        assert expected == start_options(["pub"], VERSIONS[major], wishes)
        return
    version = f"{VERSIONS[major] // 10000}.{VERSIONS[major] % 10000}"
    ((name, value),) = sent.items()
    value = value if value == "true" else f'"{value}"'
    with pytest.raises(
        OperatorError, match=f"(?s)^{name} = {value} needs Postgres {oldest} .*server is {version}.*{offered} in"
    ):
        start_options(["pub"], VERSIONS[major], wishes)


@pytest.mark.parametrize(("major", "value"), [(13, "off"), (14, "on"), (15, "on")])
def test_server_that_streams_but_not_in_parallel_is_offered_plain_streaming(major: int, value: str) -> None:
    with pytest.raises(OperatorError) as refusal:
        start_options(["pub"], VERSIONS[major], StreamWishes(streaming="parallel"))

    assert f'set streaming = "{value}" in [postgres], or upgrade the server' == refusal.value.remedy


@pytest.mark.parametrize("major", VERSIONS)
def test_no_combination_of_wishes_names_an_option_or_protocol_that_the_server_does_not_know(major: int) -> None:
    as_of = min(major, 16)  # 17, 18 and the betas of 19 know the same
    answered = 0
    for wishes in ALL_WISHES:
        try:
            options = start_options(["pub"], VERSIONS[major], wishes)
        except OperatorError:
            continue
        answered += 1
        assert set(options) <= KNOWN[as_of]
        assert int(options["proto_version"]) <= PROTOCOL_MAX[as_of]
    assert answered == {12: 1, 13: 1, 14: 8, 15: 16, 16: 48}[as_of]


@pytest.mark.parametrize("wishes", ALL_WISHES, ids=str)
def test_protocol_is_the_lowest_that_sends_all_that_is_wished(wishes: StreamWishes) -> None:
    protocol = {"parallel": 4, "on": 2, "off": 1}[wishes.streaming]
    expected = max(protocol, 3 if wishes.two_phase else 1)

    assert str(expected) == start_options(["pub"], VERSIONS[18], wishes)["proto_version"]


@pytest.mark.parametrize(
    ("names", "quoted"),
    [
        (["pub"], '"pub"'),
        (["MixedCase"], '"MixedCase"'),
        (['odd "name", with, commas'], '"odd ""name"", with, commas"'),
        (["a", "b"], '"a","b"'),
        (["it's"], '"it\'s"'),
    ],
)
def test_publication_names_are_quoted(names: list[str], quoted: str) -> None:
    assert quoted == start_options(names, VERSIONS[18], StreamWishes())["publication_names"]


def test_server_older_than_12_is_refused() -> None:
    with pytest.raises(OperatorError, match=r"Postgres 11\.22, which is older than 12"):
        start_options(["pub"], 110022, StreamWishes())
