"""Judgements of a publication and of its tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from walbridge.check.finding import Finding, Severity, advice, error, ok, warning
from walbridge.check.published import PublicationFacts, TableCase, combined, judged, publication_findings
from walbridge.producer.postgres.facts import Membership, PublishedTable
from walbridge.schemas.settings import Settings

EVERYTHING = PublicationFacts(
    ("insert", "update", "delete", "truncate"),
    all_tables=False,
    via_root=True,
    by_schema=False,
    has_partitioned=False,
)
ORDERS = PublishedTable(1, "public", "orders", "d", ("id",), None, is_partitioned=False)
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
ALL = "insert, update, delete, truncate"
PUBLICATIONS: dict[str, tuple[PublicationFacts | None, dict[str, Any], list[PublishedTable], list[Finding]]] = {
    "all is published": (EVERYTHING, {}, [ORDERS], [ok("publication", f"walbridge publishes {ALL} of 1 table")]),
    "missing, to be made by hand": (
        None,
        {},
        [],
        [
            error(
                "publication",
                "publication walbridge does not exist",
                'CREATE PUBLICATION "walbridge" FOR TABLE ...; or name its tables in [postgres] publication_tables '
                "and run walbridge init",
            )
        ],
    ),
    "missing, to be made by init": (
        None,
        {"publication_tables": ("orders",)},
        [],
        [advice("publication", "publication walbridge does not exist yet", "walbridge init")],
    ),
    "empty": (
        EVERYTHING,
        {},
        [],
        [
            error(
                "publication",
                "publication walbridge holds no tables",
                'ALTER PUBLICATION "walbridge" ADD TABLE ...;',
            )
        ],
    ),
    "inserts only": (
        replace(EVERYTHING, kinds=("insert",)),
        {},
        [ORDERS],
        [
            ok("publication", "walbridge publishes insert of 1 table"),
            error(
                "publication",
                "publication walbridge does not publish update, delete, truncate: such changes do not come",
                f"ALTER PUBLICATION \"walbridge\" SET (publish = '{ALL}');",
            ),
        ],
    ),
    "all tables": (
        replace(EVERYTHING, all_tables=True),
        {},
        [ORDERS],
        [
            ok("publication", f"walbridge publishes {ALL} of 1 table"),
            ok("publication", "walbridge takes in every table that is created later: it is copied when it comes"),
        ],
    ),
    "each partition by itself": (
        replace(EVERYTHING, has_partitioned=True, via_root=False),
        {},
        [ORDERS],
        [
            ok("publication", f"walbridge publishes {ALL} of 1 table"),
            advice(
                "publication",
                "walbridge has publish_via_partition_root = false: each partition is a table of its own",
                'ALTER PUBLICATION "walbridge" SET (publish_via_partition_root = true); before walbridge init',
            ),
        ],
    ),
    "partitions under their root": (
        replace(EVERYTHING, has_partitioned=True),
        {},
        [ORDERS],
        [ok("publication", f"walbridge publishes {ALL} of 1 table")],
    ),
    "fewer than settings name": (
        EVERYTHING,
        {"publication_tables": ("orders", "public.lines", "sales.t")},
        [ORDERS],
        [
            ok("publication", f"walbridge publishes {ALL} of 1 table"),
            warning(
                "publication",
                "walbridge does not publish public.lines, sales.t, which publication_tables names",
                "mend [postgres] publication_tables; or add those tables to the publication: the producer copies them",
            ),
        ],
    ),
}


@pytest.mark.parametrize(("changes", "wanted"), TABLES.values(), ids=TABLES)
def test_table_is_judged_by_its_identity_key_and_filter(changes: dict[str, Any], wanted: list[Finding]) -> None:
    assert list(judged(replace(KEYED, **changes), EVERYTHING)) == wanted


def test_table_without_identity_is_no_matter_where_only_inserts_are_published() -> None:
    assert list(judged(replace(KEYED, has_key=False), replace(EVERYTHING, kinds=("insert", "truncate")))) == []


@pytest.mark.parametrize(("facts", "settings", "tables", "wanted"), PUBLICATIONS.values(), ids=PUBLICATIONS)
def test_publication_is_judged_by_what_it_leaves_out(
    facts: PublicationFacts | None, settings: dict[str, Any], tables: list[PublishedTable], wanted: list[Finding]
) -> None:
    named = Settings.model_validate({"postgres": settings})

    assert list(publication_findings("walbridge", facts, named, tables)) == wanted


def test_names_in_remedies_are_quoted_as_sql_wants_them() -> None:
    named = Settings.model_validate({"postgres": {"publication": 'my "own"'}})
    facts = replace(EVERYTHING, has_partitioned=True, via_root=False)

    (found,) = [
        each for each in publication_findings('my "own"', facts, named, [ORDERS]) if each.severity is Severity.ADVICE
    ]

    assert found.remedy is not None
    assert found.remedy.startswith('ALTER PUBLICATION "my ""own""" SET')


def test_operation_that_another_publication_publishes_is_no_fault_of_this_one() -> None:
    several = Settings.model_validate({"postgres": {"publications": ["a", "b"]}})
    inserts = replace(EVERYTHING, kinds=("insert",))
    both = (Membership("a", ("insert",), (), None, frozenset()), Membership("b", (), (), None, frozenset()))

    found = list(publication_findings("a", inserts, several, [replace(ORDERS, memberships=both), ORDERS]))

    assert found == [ok("publication", "a publishes insert of 1 table")]
    assert combined([inserts, None, replace(EVERYTHING, kinds=("update",))]) == replace(
        EVERYTHING, kinds=("insert", "update")
    )
    assert combined([None]) is None
