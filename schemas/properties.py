"""Properties of Java and C clients, as TOML has them. Pure.

In: a table of the settings file. Out: dotted names with their values as text.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from walbridge.schemas.errors import OperatorError


def flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested TOML tables as dotted names: ``sasl = {mechanism = "PLAIN"}`` → ``sasl.mechanism``.

    Lists become what both clients read: values joined by commas.
    """
    flat: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = _property_text(value)
    return flat


def server_address(server: str) -> tuple[str, int]:
    """Host and port of one of ``bootstrap_servers``; like the Java client, this requires the port.

    Raises:
        OperatorError: it has none.
    """
    host, _, port = server.strip().rpartition("://")[2].rpartition(":")
    if not host or not port.isdecimal():
        raise OperatorError(
            f"[kafka] bootstrap_servers names {server.strip() or 'an empty server'}, which is not host:port",
            remedy='write it as "host:port,host:port"',
        )
    return host.strip("[]"), int(port)


def _property_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(_property_text, value))
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)
