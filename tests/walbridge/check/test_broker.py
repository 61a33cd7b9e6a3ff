"""Judgements of the cluster: can it hold what we write, and keep it?"""

from __future__ import annotations

from typing import Any

import pytest

from walbridge.check.finding import Finding, advice, error, ok, warning
from walbridge.check.topics import BrokerFacts, broker_findings, left_out_findings, server_findings
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.control.table_progress import FIRST_COPY_WAITS, TableProgress
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings

GOOD = {
    "transaction.max.timeout.ms": "900000",
    "transaction.state.log.replication.factor": "3",
    "default.replication.factor": "3",
}
CASES: dict[str, tuple[int, dict[str, str], dict[str, Any], list[Finding]]] = {
    "three replicas": (3, GOOD, {}, []),
    "settings that may not be seen": (
        3,
        {},
        {},
        [
            advice(
                "broker",
                "the brokers' settings may not be seen, so they were not checked",
                "grant DescribeConfigs on the cluster to walbridge's principal",
            )
        ],
    ),
    "transactions that are ended early": (
        3,
        GOOD | {"transaction.max.timeout.ms": "60000"},
        {},
        [
            error(
                "broker",
                "transaction.max.timeout.ms = 60000, the producer asks for 300000",
                "set [producer] transaction_timeout_ms = 60000, or raise transaction.max.timeout.ms on the brokers",
            )
        ],
    ),
    "more state replicas than brokers": (
        1,
        GOOD,
        {"topics": {"replication_factor": 1}},
        [
            error(
                "broker",
                "transaction.state.log.replication.factor = 3, but there is 1 broker: no transaction can begin",
                "set transaction.state.log.replication.factor = 1 on the brokers, or start more of them",
            ),
            advice(
                "broker",
                "new topics get 1 replica: with the broker's disk all that is in Kafka is lost",
                "run 3 brokers and set [topics] replication_factor = 3 before walbridge init",
            ),
        ],
    ),
    "more replicas than brokers": (
        3,
        GOOD,
        {"topics": {"replication_factor": 5}},
        [
            error(
                "broker",
                "new topics get 5 replicas, but there are 3 brokers",
                "set [topics] replication_factor = 3, or start more brokers",
            )
        ],
    ),
}


@pytest.mark.parametrize(("brokers", "shown", "sections", "wanted"), CASES.values(), ids=CASES)
def test_cluster_is_judged_by_its_brokers_and_their_settings(
    brokers: int, shown: dict[str, str], sections: dict[str, Any], wanted: list[Finding]
) -> None:
    settings = Settings.model_validate({"kafka": {"bootstrap_servers": "k:9092"}} | sections)

    reachable, *judged = broker_findings(BrokerFacts(brokers, shown), settings)

    assert reachable == ok("broker", f"{brokers} broker{'s' if brokers > 1 else ''} at k:9092")
    assert judged == wanted


@pytest.mark.parametrize(("servers", "wrong"), [("one:9092,two", ["two"]), ("one:9092, PLAINTEXT://two:9093", [])])
def test_server_that_only_the_job_refuses_is_an_error_in_its_words(servers: str, wrong: list[str]) -> None:
    """The producer's client takes 9092 for one without a port."""
    found = list(server_findings(Settings.model_validate({"kafka": {"bootstrap_servers": servers}})))

    assert found == [
        error(
            "broker",
            f"[kafka] bootstrap_servers names {each}, which is not host:port",
            'write it as "host:port,host:port"',
        )
        for each in wrong
    ]


def test_tables_that_came_after_the_copy_are_warned_of_and_no_others() -> None:
    """The producer goes on without them."""
    tables = {
        1: TableProgress(1, "current"),
        2: TableProgress(2, "dropped", since=Lsn(5)),
        3: TableProgress(3, "stale", name="public.late", since=Lsn(0x2BC), why="added after the copy"),
    }
    text = "table public.late is stale and not published since 0/2BC: added after the copy"

    assert [*left_out_findings(Progress("streaming", "7", 1, "s", "shop", tables=tables))] == [
        warning("topics", text, "walbridge copy public.late")
    ]
    assert [*left_out_findings(None)] == []


def test_table_that_the_role_may_not_read_needs_its_grant_before_a_copy() -> None:
    late = TableProgress(3, "stale", name="public.late", since=Lsn(0x2BC), why="the role may not read public.late")
    (found,) = left_out_findings(Progress("streaming", "7", 1, "s", "shop", tables={3: late}), grants={3: "GRANT …;"})

    assert found.remedy == "GRANT …; then walbridge copy public.late"


def test_table_that_waits_for_its_first_copy_needs_nobody() -> None:
    waits = TableProgress(3, "stale", name="public.late", why=FIRST_COPY_WAITS)

    assert [*left_out_findings(Progress("streaming", "7", 1, "s", "shop", tables={3: waits}))] == [
        ok("topics", "table public.late waits for its turn: its first copy has not begun")
    ]
