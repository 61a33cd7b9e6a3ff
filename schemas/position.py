"""Where an event stands: LSNs and ``(commit_lsn, ordinal)``.

A message's own WAL position orders nothing (Relation frames carry 0, a Begin shares it with
its first change), so an event is ordered by the LSN of its transaction's commit record and
its ordinal among the transaction's events, counted over all tables from 0 (invariant I4).
"""

import re
from typing import NamedTuple, NewType

from walbridge.schemas.errors import ProtocolError

Lsn = NewType("Lsn", int)
"""A byte position in the WAL, 64 bits."""

COPIED_ORDINAL = -1
"""Ordinal of rows of a copy, before every event committed at or after its snapshot; and of messages outside
transactions."""

_LSN_MAX = 2**64 - 1
_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")


class Position(NamedTuple):
    """Order of events: by commit, then by place in the transaction."""

    commit_lsn: Lsn
    ordinal: int


def parse_lsn(text: str) -> Lsn:
    """Parse Postgres' ``16/B374D848`` form.

    Raises:
        ProtocolError: not two hexadecimal halves of at most 32 bits.
    """
    halves = _LSN.fullmatch(text)
    if halves is None:
        raise ProtocolError(f"not an LSN: {text!r}")
    return Lsn(int(halves[1], 16) << 32 | int(halves[2], 16))


def format_lsn(lsn: int) -> str:
    """Format as Postgres prints a ``pg_lsn``."""
    if not 0 <= lsn <= _LSN_MAX:
        raise ValueError(f"an LSN has 64 bits, got {lsn}")
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
