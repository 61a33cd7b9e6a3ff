"""A primary that dies under load, and a standby that has its slot: followed without a copy (I1, I7, I8)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from tests.faults.followed import settings_of
from tests.fix_postgres import Database
from tests.fix_producer import ProducerUnderTest
from tests.postgres_versions import PostgresOfVersion
from tests.standby import OF_PRIMARY, Standby, either, followed
from tests.wait import wait_until
from walbridge.check.finding import Finding
from walbridge.check.verb import all_findings
from walbridge.embedded.kafka import KafkaBroker

pytestmark = pytest.mark.soak

BEFORE, AFTER = 1_000, 500


@dataclass
class Load:
    """Writes to whoever takes it, until it is stopped; what a primary took with it is no fault of ours."""

    dsn: str
    rows: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Load:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._write()
            except psycopg.Error:
                self._stop.wait(0.1)

    def _write(self) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            while not self._stop.is_set():
                with connection.transaction():
                    connection.execute("INSERT INTO t (v) SELECT 'n' FROM generate_series(1, 5)")
                    connection.execute(
                        "UPDATE t SET v = v || 'u' WHERE id % 7 = 0 AND id > (SELECT max(id) - 50 FROM t)"
                    )
                    connection.execute("DELETE FROM t WHERE id = (SELECT max(id) - 3 FROM t)")
                self.rows += 5

    def wait_for(self, more: int) -> None:
        wanted = self.rows + more
        wait_until(lambda: self.rows >= wanted, f"{more} more rows", 120)


@pytest.fixture(params=[17, 18])
def major(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def primary(major: int) -> Iterator[PostgresOfVersion]:
    with PostgresOfVersion(major, OF_PRIMARY) as server:
        yield server


@pytest.mark.parametrize("failover_later", [False, True])
def test_failover_to_a_standby_that_has_the_slot_is_followed_without_a_copy(
    primary: PostgresOfVersion,
    major: int,
    kafka: KafkaBroker,
    pipeline_name: str,
    tmp_path: Path,
    failover_later: bool,
) -> None:
    """The standby has all that was sent, since the primary sends nothing of such a slot before it has."""
    database = Database(primary, "postgres")
    database.execute("CREATE TABLE t (id bigserial PRIMARY KEY, v text)")
    producer = ProducerUnderTest(pipeline_name, database, kafka, tmp_path, as_command=True)
    producer.publish("t")
    try:
        with followed(primary, major) as standby:
            dsn = either(primary, standby)
            producer.settings["postgres"] = {"dsn": dsn, "failover": not failover_later}
            running = producer.start_streaming()
            if failover_later:
                running.stop()
                producer.settings["postgres"]["failover"] = True
                producer.write_settings()
                assert [each.remedy for each in _not_kept(producer)] == ["start walbridge produce again"]
                running = producer.start_streaming()
                assert "standbys keep the slot from now on" in running.log
                assert _not_kept(producer) == []
            with Load(dsn) as load:
                load.wait_for(BEFORE)
                wait_until(lambda: standby.has_synchronised(producer.slot), "the standby to have the slot", 120)
                load.wait_for(BEFORE)
                primary.kill()
                standby.promote()
                _without_waiting(standby)
                load.wait_for(AFTER)
            producer.database = Database(standby, "postgres")
            producer.check_equal()
            assert "failover accepted" in running.log
            with producer.topics() as topics:
                cuts = topics.cuts()
            assert len({cut.epoch for cut in cuts}) == 1
            barriers = [barrier.kind for cut in cuts for of in cut.tables for barrier in of.barriers]
            assert barriers.count("copy_begin") == 1
            running.stop()
    finally:
        producer.kill_all()


def _not_kept(producer: ProducerUnderTest) -> list[Finding]:
    """What check says of the slot."""
    return [each for each in all_findings(settings_of(producer)) if "is not kept by standbys yet" in each.text]


def _without_waiting(standby: Standby) -> None:
    """It has no standby itself."""
    with psycopg.connect(standby.dsn(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronized_standby_slots = ''")
        connection.execute("SELECT pg_reload_conf()")
