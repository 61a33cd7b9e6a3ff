"""What START_REPLICATION is asked for: the options that these wishes need on a server of this version.

In: publications, the server's version, wishes. Out: option names and values, unquoted. An older
server refuses options it does not know, so one is named only when something else than its default
is wished; the protocol's version is the lowest in which the server sends all that is wished. What
it cannot send is refused here, with the version that can. Source: PostgreSQL ``pgoutput.c``,
``parse_output_parameters``, of 12 to 18.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

from walbridge.schemas.errors import OperatorError

OLDEST_SERVER = 120000
STREAMING_SINCE = 140000
_MAJOR = 10000
PUBLICATION_NAMES = "publication_names"
Streaming = Literal["off", "on", "parallel"]


@dataclass(frozen=True, slots=True)
class StreamWishes:
    """Each default is what the server does unasked, in every version."""

    binary: bool = False
    messages: bool = False
    streaming: Streaming = "off"
    two_phase: bool = False  # sets the flag of the slot, which only Postgres 18 can clear
    origin: Literal["any", "none"] = "any"


@dataclass(frozen=True, slots=True)
class _Need:
    major: int
    protocol: int
    sent: str


_DEFAULTS = asdict(StreamWishes())
_NEEDS: dict[tuple[str, object], _Need] = {
    ("binary", True): _Need(14, 1, "true"),
    ("messages", True): _Need(14, 1, "true"),
    ("streaming", "on"): _Need(14, 2, "on"),
    ("streaming", "parallel"): _Need(16, 4, "parallel"),
    ("two_phase", True): _Need(15, 3, "true"),
    ("origin", "none"): _Need(16, 1, "none"),
}


def start_options(publications: Iterable[str], server_version: int, wishes: StreamWishes) -> dict[str, str]:
    """The options, in the order in which they are sent.

    Args:
        publications: names as the catalogue has them.
        server_version: as libpq tells it, e.g. 140024.

    Raises:
        OperatorError: the server is too old, for walbridge or for a wish.
    """
    if server_version < OLDEST_SERVER:
        raise OperatorError(
            f"the server is Postgres {_printed(server_version)}, which is older than {OLDEST_SERVER // _MAJOR}",
            remedy="upgrade the server",
        )
    wished = {name: value for name, value in asdict(wishes).items() if value != _DEFAULTS[name]}
    asked = {name: _NEEDS[name, value] for name, value in wished.items()}
    for name, need in asked.items():
        if server_version < need.major * _MAJOR:
            raise _too_old(name, wished[name], server_version)
    protocol = max((need.protocol for need in asked.values()), default=1)
    options = {"proto_version": str(protocol), PUBLICATION_NAMES: ",".join(map(_quoted, publications))}
    return options | {name: need.sent for name, need in asked.items()}


def with_publication(options: dict[str, str], name: str) -> dict[str, str]:
    """These options, with this publication asked for as well."""
    return options | {PUBLICATION_NAMES: f"{options[PUBLICATION_NAMES]},{_quoted(name)}"}


def names_in(option: str) -> tuple[str, ...]:
    """The publications that ``publication_names`` named, or earlier code did, without quotes."""
    if not option.startswith('"'):
        return (option,)
    return tuple(name.replace('""', '"') for name in re.findall(r'"((?:[^"]|"")*)"', option))


def _too_old(name: str, value: object, server_version: int) -> OperatorError:
    major = _NEEDS[name, value].major
    return OperatorError(
        f"{name} = {json.dumps(value)} needs Postgres {major} or newer; the server is {_printed(server_version)}",
        remedy=f"set {name} = {json.dumps(_most(name, server_version))} in [postgres], or upgrade the server",
    )


def _most(name: str, server_version: int) -> object:
    """The most demanding value of this wish that the server can fulfil."""
    can = [value for (of, value), need in _NEEDS.items() if of == name and server_version >= need.major * _MAJOR]
    return can[-1] if can else _DEFAULTS[name]


def _quoted(name: str) -> str:
    """The server reads a list of identifiers: unquoted ones are folded to lower case and end at a comma."""
    return '"' + name.replace('"', '""') + '"'


def _printed(server_version: int) -> str:
    return f"{server_version // _MAJOR}.{server_version % _MAJOR}"
