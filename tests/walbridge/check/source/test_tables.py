"""Judgements of published tables: their identities and keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.walbridge.check.source.test_publication import EVERYTHING
from walbridge.check.finding import Finding, advice, warning
from walbridge.check.source.tables import TableCase, judged

KEYED = TableCase(
    "public.t",
    '"public"."t"',
    replica_identity="d",
    has_key=True,
    changes=0,
)
ALTER = 'ALTER TABLE "public"."t"'
ADD_KEY, FULL = f"{ALTER} ADD PRIMARY KEY (...);", f"{ALTER} REPLICA IDENTITY FULL;"
NO_IDENTITY = "public.t has no replica identity: Postgres refuses UPDATE and DELETE of it"
TABLES: dict[str, tuple[dict[str, Any], list[Finding]]] = {
    "key": ({}, []),
    "unique index": ({"replica_identity": "i"}, []),
    "key and FULL": ({"replica_identity": "f"}, []),
    "no key": ({"has_key": False}, [advice("tables", NO_IDENTITY, f"{ADD_KEY} or {FULL}")]),
    "no key, but updates": (
        {"has_key": False, "changes": 1200},
        [warning("tables", f"{NO_IDENTITY}; it had 1,200 of them", f"{ADD_KEY} or {FULL}")],
    ),
    "key that is not announced": (
        {"replica_identity": "n"},
        [advice("tables", NO_IDENTITY, f"{ALTER} REPLICA IDENTITY DEFAULT;")],
    ),
    "FULL without a key": (
        {"replica_identity": "f", "has_key": False},
        [
            advice(
                "tables",
                "public.t has identity FULL and no key: an update searches the whole lake table, and its topic has "
                "one partition",
                ADD_KEY,
            )
        ],
    ),
}


@pytest.mark.parametrize(("changes", "wanted"), TABLES.values(), ids=TABLES)
def test_table_is_judged_by_its_identity_key_and_filter(changes: dict[str, Any], wanted: list[Finding]) -> None:
    assert list(judged(replace(KEYED, **changes), EVERYTHING)) == wanted


def test_table_without_identity_is_no_matter_where_only_inserts_are_published() -> None:
    assert list(judged(replace(KEYED, has_key=False), replace(EVERYTHING, kinds=("insert", "truncate")))) == []
