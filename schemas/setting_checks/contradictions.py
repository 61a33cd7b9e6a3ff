"""Settings that contradict each other: one of them is wrong, whatever the servers say. Pure.

In: values. Out: ``ValueError`` with both settings' names, and no value of a property that may be a secret (I10).
"""

from collections.abc import Collection, Mapping

RETENTION_MS_MIN = 60_000
_PROTOCOL = "security.protocol"
_PLAIN = "plaintext"


def refuse_two_protocols(client: Mapping[str, str], spark: Mapping[str, str], named_by_files: frozenset[str]) -> None:
    """Both programs speak to the same listeners. Where one has no properties, it may run on another machine."""
    has_client, has_spark = client or "client" in named_by_files, spark or "spark" in named_by_files
    if not has_client or not has_spark:
        return
    ours, theirs = client.get(_PROTOCOL, _PLAIN).lower(), spark.get(_PROTOCOL, _PLAIN).lower()
    if ours != theirs:
        names = (
            f"{each}{'' if _PROTOCOL in of else ', the default,'}" for each, of in ((ours, client), (theirs, spark))
        )
        raise ValueError(
            f"{_PROTOCOL} is {' in client and '.join(names)} in spark: both programs connect to bootstrap_servers, and "
            "a listener there has one protocol"
        )


def refuse_brief_retention(retention_ms: int) -> None:
    """Rows would be deleted before anybody can read them."""
    if 0 <= retention_ms < RETENTION_MS_MIN:
        raise ValueError(
            f"retention_ms ({retention_ms}) is shorter than a minute: rows would go before they are read; -1 keeps them"
        )


def refuse_endless_compaction(compacted: Collection[str], retention_ms: int) -> None:
    """Records that a cut names are not compacted while the cut is kept."""
    if compacted and retention_ms < 0:
        raise ValueError(
            "cleanup has compacted tables, and retention_ms is -1: cuts are kept for ever then, and so is each record "
            "that they name; set a retention, for the other tables and the cuts"
        )


def refuse_unused_prefixes(prefixes: tuple[str, ...], *, messages: bool) -> None:
    """They choose among what is not published at all."""
    if prefixes and not messages:
        raise ValueError(
            "message_prefixes chooses among messages, and messages is false: set it to true, or leave the prefixes out"
        )
