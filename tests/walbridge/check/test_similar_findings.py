"""Findings that say the same of many tables are told once."""

from walbridge.check.finding import Finding, error, ok, warning
from walbridge.check.report import as_text, verdict
from walbridge.check.similar_findings import TOLD_SINGLY_MAX, grouped

TABLES = 504


def hidden(table: str) -> Finding:
    return error("role", f"r may not read {table}", f'GRANT SELECT ON TABLE "{table}" TO r;')


def test_the_same_of_many_tables_is_told_once_with_their_number_and_examples() -> None:
    findings = [hidden(f"public.t{number}") for number in range(TABLES)]

    assert as_text(findings).splitlines() == [
        "error    role: r may not read public.t0",
        '         → GRANT SELECT ON TABLE "public.t0" TO r;',
        "           and 503 more likewise: public.t1, public.t2, public.t3, public.t4, public.t5, …",
    ]
    assert verdict(findings) == f"errors: {TABLES}, warnings: 0, advice: 0, ok: 0"


def test_few_are_told_one_by_one_so_that_each_has_its_remedy() -> None:
    findings = [hidden(f"public.t{number}") for number in range(TOLD_SINGLY_MAX)]

    assert [similar.first for similar in grouped(findings)] == findings


def test_those_that_differ_in_words_severity_or_area_stay_apart() -> None:
    findings = [
        *(hidden(f"public.t{number}") for number in range(4)),
        *(warning("role", f"r may not read public.t{number}", "x") for number in range(4)),
        *(error("tables", f"public.t{number} has no key", "x") for number in range(4)),
        *(ok("tables", f"public.t{number}") for number in range(4)),
    ]

    assert [len(similar.others) for similar in grouped(findings)] == [3, 3, 3, 0, 0, 0, 0]


def test_places_and_quoted_names_make_no_difference() -> None:
    findings = [
        warning("lake", f'table "my schema"."t {number}" is stale since {number:X}/{number}A', f"copy public.t{number}")
        for number in range(10, 15)
    ]
    (similar,) = grouped(findings)

    assert similar.rest == (
        'and 4 more likewise: "my schema"."t 11", "my schema"."t 12", "my schema"."t 13", "my schema"."t 14"'
    )
