"""What the programs show while they work, and the Spark job while Kafka is away; recorded for the tests of alerts.

``RECORD_METRICS=1 make one T=tests/monitoring/test_both_programs.py`` writes ``recorded.prom`` anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.test_verified_again import verifying
from tests.fix_producer import ProducerUnderTest
from tests.monitoring.test_alerts import RECORDED, documented
from tests.scraped import Scraped
from tests.spark_consumer.program import START_S, Program
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker

pytestmark = [pytest.mark.servers, pytest.mark.fault]
PATIENCE_S = 120


@pytest.fixture(autouse=True)
def _broker_is_back(kafka: KafkaBroker) -> Iterator[None]:
    yield
    kafka.start()


@contextmanager
def both_running(producer: ProducerUnderTest, kafka: KafkaBroker, folder: Path) -> Iterator[tuple[Scraped, Scraped]]:
    """The producer and the job, with rows in the lake and no plan in work."""
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    producer.publish("t")
    of_producer = Scraped(producer.start_streaming().log)
    (folder / "job").mkdir()
    program = Program(kafka, producer.name, folder / "lake", folder / "job")
    with program.running(WALBRIDGE_METRICS__JOB_PORT="0") as (process, said):
        wait_until(lambda: program.end_lsn() > 0 or process.poll() is not None, "a published cut", START_S)
        of_job = Scraped(said.read_text())
        producer.database.execute("INSERT INTO t VALUES (1, 1)")
        wait_until(lambda: of_job.value("walbridge_job_rows_total") > 0, "rows in the lake", PATIENCE_S)
        wait_until(lambda: of_job.value("walbridge_job_published_age_seconds") < 60, "the lake to be new", PATIENCE_S)
        wait_until(lambda: of_job.value("walbridge_job_plan_age_seconds") == 0, "no plan in work", PATIENCE_S)
        yield of_producer, of_job


@pytest.mark.variant(of="test_program_shows_every_metric_that_readme_lists_for_it")
def test_programs_show_all_that_is_documented(producer: ProducerUnderTest, kafka: KafkaBroker, tmp_path: Path) -> None:
    producer.settings |= {"lake": {"path": str(tmp_path / "lake")}, "metrics": {"verify_port": 0}}
    with (
        both_running(producer, kafka, tmp_path) as (of_producer, of_job),
        verifying(tmp_path, producer.write_settings()) as (_, log),
    ):
        wait_until(lambda: "all tables were compared" in log.read_text(), "lake and source to be compared", START_S)
        of_verify = Scraped(log.read_text())
        wait_until(lambda: of_verify.value("walbridge_verify_tables", result="equal") == 1, "an equal table", START_S)
        shown = of_producer.text() + of_job.text() + of_verify.text()

        assert {*re.findall(r"(?m)^# TYPE (walbridge_\w+) ", shown)} == documented()
        assert of_job.state("job") == "running"
        assert of_producer.value("walbridge_producer_tables", state="current") == 1
        assert of_job.value("walbridge_job_lake_free_bytes") > 0
        if os.environ.get("RECORD_METRICS"):
            RECORDED.write_text(recordable(shown, producer.name))


@pytest.mark.soak
def test_job_says_when_kafka_is_away_and_how_old_the_lake_is(
    producer: ProducerUnderTest, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """It takes minutes: Spark's own clients give a broker up late."""
    with both_running(producer, kafka, tmp_path) as (_, of_job):
        kafka.kill()
        wait_until(lambda: of_job.state("job") == "waiting for Kafka", "the job to wait", PATIENCE_S)
        age_s = of_job.value("walbridge_job_published_age_seconds")
        wait_until(
            lambda: of_job.value("walbridge_job_published_age_seconds") > age_s + 1, "the lake to age", PATIENCE_S
        )
        kafka.start()
        wait_until(lambda: of_job.state("job") == "running", "the job to go on", PATIENCE_S)
        wait_until(lambda: of_job.value("walbridge_job_published_age_seconds") < age_s, "the lake to be new", START_S)


def recordable(text: str, pipeline: str) -> str:
    """Without the process, and with a pipeline and topics of every run."""
    lines = [line for line in text.splitlines() if not re.match(r"(# \w+ )?process_", line)]
    return "\n".join(lines).replace(pipeline, "shop") + "\n"
