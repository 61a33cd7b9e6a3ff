"""A server that answers one question and not the next: nothing is concluded from what it did not say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.fix_postgres import Database
from tests.in_soak import in_variants
from tests.walbridge.check.stack import Stack
from walbridge.check import reached
from walbridge.check.finding import Severity
from walbridge.embedded.kafka import KafkaBroker
from walbridge.init import initialise
from walbridge.producer.postgres import catalog
from walbridge.schemas.errors import KafkaAway, OperatorError, RetryableError, WalbridgeError


@pytest.fixture
def initialised(database: Database, kafka: KafkaBroker, pipeline_name: str, tmp_path: Path) -> Stack:
    """Publication, topics and slot are there; a producer has written its progress or not."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY)")
    sections = {"postgres": {"publication_tables": ["orders"]}}
    stack = Stack(database, kafka, pipeline_name, tmp_path, sections=sections)
    initialise(stack.settings, "reader", lambda line: None)
    return stack


def not_checked(stack: Stack, peer: str) -> list[str]:
    return [each.area for each in stack.findings() if each.text == f"not checked: {peer} did not answer in full"]


@pytest.mark.parametrize(
    "failure",
    [
        KafkaAway("topic x cannot be read: timed out"),
        in_variants(OperatorError("may not be read", remedy="grant READ")),
    ],
)
@pytest.mark.parametrize("question", ["newest_progress", "relations"])
def test_progress_that_could_not_be_read_makes_no_finding_about_the_slot(
    initialised: Stack, monkeypatch: pytest.MonkeyPatch, question: str, failure: WalbridgeError
) -> None:
    """Else a slot that is needed would seem to be nobody's, and be dropped with all that it keeps (I1)."""

    def fails(*arguments: Any) -> None:
        raise failure

    monkeypatch.setattr(reached, question, fails)

    assert not_checked(initialised, "Kafka") == ["topics", "rights", "session", "slot", "lake"]
    assert not initialised.says("says nothing of it")
    assert not [each for each in initialised.findings() if "pg_drop_replication_slot" in (each.remedy or "")]


def test_tables_that_could_not_be_read_make_no_finding_about_slot_and_tables(
    initialised: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: Any) -> None:
        raise RetryableError("Postgres closed the connection")

    monkeypatch.setattr(catalog, "published_tables", fails)

    assert not_checked(initialised, "Postgres") == ["role", "publication", "tables", "session", "slot"]
    assert initialised.found("Postgres closed the connection").area == "server"


def test_a_table_that_is_being_altered_is_not_waited_for(initialised: Stack) -> None:
    """An ALTER may take hours, and from Postgres 16 on the server opens each table to list it."""
    database = initialised.database
    with psycopg.connect(database.dsn) as holder:
        holder.execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")

        told = initialised.found("a published table is locked by another session")
        assert (told.area, told.severity) == ("tables", Severity.WARNING)
        assert not [each for each in initialised.findings() if each.severity is Severity.ERROR]

        find = re.search("SELECT .*'AccessExclusiveLock'", told.remedy or "")
        assert find is not None
        assert (holder.info.backend_pid, "orders") in database.rows(find.group())
    assert not initialised.says("is locked")
