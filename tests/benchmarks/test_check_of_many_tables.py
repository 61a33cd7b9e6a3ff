"""How long ``walbridge check`` takes for a pipeline of 600 tables."""

from __future__ import annotations

import time

import pytest

from tests.benchmarks.results import record
from tests.fix_producer import ProducerUnderTest
from tests.walbridge.check.stack import Stack
from walbridge.check.finding import Severity

pytestmark = pytest.mark.bench
TABLES = 600


def test_check_of_600_tables(producer: ProducerUnderTest) -> None:
    for first in range(0, TABLES, 100):
        tables = (f"CREATE TABLE t{number} (id int PRIMARY KEY, v text)" for number in range(first, first + 100))
        producer.database.execute(";".join(tables))
    producer.database.execute("CREATE PUBLICATION walbridge FOR ALL TABLES")
    running = producer.start()
    running.wait_for_log("streaming", timeout_s=300)
    stack = Stack(producer.database, producer.kafka, producer.name, producer.folder)
    took = []
    for _ in range(3):
        begun_s = time.monotonic()
        findings = stack.findings()
        took.append(time.monotonic() - begun_s)

    assert not [each for each in findings if each.severity is Severity.ERROR]
    print(f"walbridge check, {TABLES} tables: {', '.join(f'{each:.2f} s' for each in took)}")
    record("check_of_600_tables", {"s": round(min(took), 2)})
