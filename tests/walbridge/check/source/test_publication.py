"""Judgements of a publication: what it publishes, and what it leaves out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from walbridge.check.finding import Finding, Severity, advice, error, ok, warning
from walbridge.check.source.publication import PublicationFacts, combined, publication_findings
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
