"""The same histories where counters, encodings and settings are others: servers of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fix_postgres import new_database
from tests.fix_producer import ProducerUnderTest
from tests.soak.histories.far_server import FarServer
from tests.soak.histories.histories import of_file
from tests.soak.histories.histories_run import HistoriesRun, Way
from tests.soak.histories.hostile_database import HostileDatabase, hostile_database
from tests.soak.histories.test_histories import FILES, UNFIT, histories
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import PostgresServer

pytestmark = [pytest.mark.soak, pytest.mark.servers]
UNFIT_WHERE_LOST = (*UNFIT, "an_index_over_a_column_whose_not_null_is_not_valid")
"""What mends them may be lost: then they rightly stay stale."""


@pytest.mark.parametrize("way", [Way.FOLLOWED, Way.AWAY])
@pytest.mark.parametrize("subject", ["columns", "keys", "partitions"])
def test_xids_begin_anew_and_oids_and_lsns_are_large(
    kafka: KafkaBroker, pipeline_name: str, tmp_path: Path, subject: str, way: Way
) -> None:
    with FarServer() as server, new_database(server) as database:
        producer = ProducerUnderTest(pipeline_name, database, kafka, tmp_path)
        try:
            run = HistoriesRun(producer, histories(*FILES[subject]), UNFIT)
            run.begin()
            run.play(way)
        finally:
            producer.kill_all()


@pytest.mark.parametrize("subject", [each for each in FILES if each != "partitions"])
def test_postgres_crashes_and_loses_what_it_had_not_flushed(
    kafka: KafkaBroker, pipeline_name: str, tmp_path: Path, subject: str
) -> None:
    """Of partitions what mends their roots may be lost, too."""
    late = {"synchronous_commit": "off", "wal_writer_delay": "1s", "wal_writer_flush_after": "0"}
    with PostgresServer(late, fsync=True) as server, new_database(server) as database:
        producer = ProducerUnderTest(pipeline_name, database, kafka, tmp_path)
        try:
            run = HistoriesRun(producer, histories(*FILES[subject]), UNFIT_WHERE_LOST)
            run.begin()
            run.play(Way.CRASHED)
        finally:
            producer.kill_all()


@pytest.fixture(params=["LATIN1", "EUC_JP"])
def encoded(
    request: pytest.FixtureRequest, kafka: KafkaBroker, pipeline_name: str, tmp_path: Path
) -> Iterator[ProducerUnderTest]:
    """Of a database in an encoding that is not UTF-8."""
    with PostgresServer() as server, hostile_database(server, request.param) as database:
        producer = ProducerUnderTest(pipeline_name, database, kafka, tmp_path)
        producer.settings["postgres"] = {"publication": "pübl ß" if request.param == "LATIN1" else "公開"}
        try:
            yield producer
        finally:
            producer.kill_all()


@pytest.mark.parametrize("binary", [False, True])
def test_encodings_and_settings_that_nobody_expects(encoded: ProducerUnderTest, *, binary: bool) -> None:
    database = encoded.database
    assert isinstance(database, HostileDatabase)
    encoding = str(database.value("SHOW server_encoding"))
    encoded.settings["postgres"]["binary"] = binary
    run = HistoriesRun(encoded, of_file(encoding.lower()))
    run.begin()
    database.turn_hostile()
    run.play()
