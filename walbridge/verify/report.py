"""The results of verify: one for each table, for people and as JSON.

Keys are shown because they are what the operator asked for; they go to the caller's terminal, and of
``verify --every`` into a file of this user's alone, never into a log or an error (I10).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from walbridge.schemas.position import format_lsn

KEYS_SHOWN_MAX = 20
NOT_VISIBLE = (
    "commits may be in the lake that Postgres does not show yet: transactions that are in progress may wait for a "
    "synchronous standby (synchronous_standby_names); run walbridge verify again when they have ended"
)
_TOO_MANY = (
    "at every look more rows differed than can be judged; run walbridge verify again when the lake has caught up"
)
KINDS = ("missing", "extra", "different")
_EPOCH = datetime(1970, 1, 1)


ARCHIVE = "archive"
"""State in the lake of a table of which not all changes come."""


@dataclass(slots=True)
class TableResult:
    """One table's verdict.

    ``state``: what the lake says of the table; only ``current`` ones are compared. ``rows`` are
    the source's. ``keys`` by kind, at most KEYS_SHOWN_MAX. ``in_flux``: rows that changed so
    often that no cut and snapshot showed them at rest. ``whole``: False when so much differs
    that only part of it was looked at, so counts are lower bounds. ``why_not_compared``: what kept
    its rows from being read, though Postgres and lake answer. ``why_undecided``: likewise, of rows that differ.
    """

    table: str
    state: str
    lsn: int
    rows: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    keys: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    in_flux: int = 0
    whole: bool = True
    notes: list[str] = field(default_factory=list)
    relation_id: int = 0
    why_not_compared: str = ""
    why_undecided: str = ""

    @property
    def passes(self) -> bool:
        """Whether nothing is wrong with it: of an archive not all changes come, and nobody expects it to be equal."""
        return self.equal or self.state == ARCHIVE

    @property
    def equal(self) -> bool:
        return self.state == "current" and self.whole and not any(self.counts.values())

    def add(self, kind: str, key: str, rows: int) -> None:
        """Count a difference, and keep its key while few are kept."""
        self.counts[kind] += rows
        if len(self.keys[kind]) < KEYS_SHOWN_MAX:
            self.keys[kind].append(key)


def as_text(results: Sequence[TableResult]) -> str:
    """Differences first, then one line per table, so that the last lines are the verdict."""
    details = [line for result in results for line in _details(result)]
    width = max(len(result.table) for result in results)
    return "\n".join([*details, *(_verdict(result, width) for result in results)])


def as_json(results: Sequence[TableResult]) -> str:
    """``{"equal": bool, "tables": [...]}``."""
    tables = [as_fields(result) for result in results]
    return json.dumps({"equal": all(result.passes for result in results), "tables": tables}, ensure_ascii=False)


def as_fields(result: TableResult) -> dict[str, Any]:
    """One of these tables."""
    return {
        "table": result.table,
        "equal": result.equal,
        "state": result.state,
        "lsn": format_lsn(result.lsn),
        "rows": result.rows,
        **result.counts,
        "in_flux": result.in_flux,
        "whole": result.whole,
        "keys": result.keys,
        "notes": [*result.notes, result.why_undecided] if result.why_undecided else result.notes,
    }


def readable_key(key: str, columns: Sequence[tuple[str, str]]) -> str:
    """``id=5, day=2024-02-29`` from the canonical text of a key. ``columns``: names and types.

    Without columns the key is a digest of the whole row.
    """
    if not columns:
        return f"row with md5 {key}"
    values, rest = [], key
    for name, type_name in columns:
        if rest.startswith("N"):
            values.append(f"{name}=null")
            rest = rest[1:]
            continue
        length, _, rest = rest.partition(":")
        octets = rest.encode()
        value, rest = octets[: int(length)].decode(), octets[int(length) :].decode()
        values.append(f"{name}={_readable(value, type_name)}")
    return ", ".join(values)


def _readable(value: str, type_name: str) -> str:
    if type_name in ("timestamp", "timestamptz"):
        value = value.removesuffix("Z")
    if not value.lstrip("-").isdigit():
        return value
    if type_name == "date":
        return str(date(1970, 1, 1) + timedelta(days=int(value)))
    if type_name in ("timestamp", "timestamptz"):
        return str(_EPOCH + timedelta(microseconds=int(value)))
    return value


def _verdict(result: TableResult, width: int) -> str:
    verdict = "equal" if result.equal else "UNEQUAL"
    if result.state != "current":
        said = "not all changes come, so it need not be equal"
        verdict = f"not compared: {result.state}{f' ({said})' if result.state == ARCHIVE else ''}"
    elif not result.whole and not any(result.counts.values()):
        verdict = f"UNDECIDED: {result.why_undecided or _TOO_MANY}"
    line = f"{result.table:<{width}}  {verdict}  {result.rows:,} rows  at {format_lsn(result.lsn)}"
    flux = f"  ({result.in_flux:,} in flux: they changed from each look to the next)" if result.in_flux else ""
    return line + flux


def _details(result: TableResult) -> list[str]:
    lines = [f"{result.table}: {note}" for note in result.notes]
    for kind in KINDS:
        count, keys = result.counts[kind], result.keys[kind]
        if not count:
            continue
        at_least = "" if result.whole else "at least "
        lines.append(f"{result.table}: {at_least}{count:,} rows {_MEANINGS[kind]}")
        lines += [f"    {key}" for key in keys]
        if count > len(keys) == KEYS_SHOWN_MAX:
            lines.append(f"    … the first {KEYS_SHOWN_MAX} keys")
    return lines


_MEANINGS = {
    "missing": "missing in the lake",
    "extra": "in the lake but not in the source",
    "different": "different",
}
