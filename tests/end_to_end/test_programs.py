"""The programs as an operator runs them, on a database that is not the demo's (ten tables): ``make soak``.

In each run the campaign kills both under load and has them stop in peace, the demo and ``test_all_locked.py`` run
the verbs, ``test_changes.py``, ``test_types.py`` and the differential test have such tables, and ``walbridge/verify``
a source that is written to.
"""

from __future__ import annotations

import json
import random
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fix_postgres import Database
from tests.programs import Programs
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker

STOP_S = 60.0
ARRIVES_S = 300.0
"""A JVM starts first, beside two other processes of tests."""
SHOP = """
    CREATE SCHEMA shop; CREATE TYPE shop.status AS ENUM ('new', 'paid', 'sent');
    CREATE TABLE shop.customers (id bigserial PRIMARY KEY, name text NOT NULL, tags text[], born date, note jsonb);
    CREATE TABLE shop.orders (id bigserial PRIMARY KEY, customer bigint, status shop.status, total numeric(12,2),
                              at timestamptz DEFAULT now());
    CREATE TABLE shop.lines ("order" bigint, line int, sku text, qty int, price numeric(10,4),
                             PRIMARY KEY ("order", line));
    CREATE TABLE shop.products (sku text PRIMARY KEY, title varchar(80), weight float4, photo bytea);
    CREATE TABLE shop.stock (sku text, place uuid, amount int, UNIQUE (sku, place));
    ALTER TABLE shop.stock REPLICA IDENTITY FULL;
    CREATE TABLE shop.events (at timestamp, kind "char", payload json);
    CREATE TABLE shop.documents (id int PRIMARY KEY, title text, body text);
    CREATE TABLE shop.rates (day date PRIMARY KEY, rate float8, valid interval, opens time);
    CREATE TABLE shop.settings (key name PRIMARY KEY, value text, flag bool);
    CREATE TABLE shop.codes (code char(6) NOT NULL, id int PRIMARY KEY);
    CREATE UNIQUE INDEX codes_code ON shop.codes (code);
    ALTER TABLE shop.codes REPLICA IDENTITY USING INDEX codes_code;
"""
WRITES = (
    "INSERT INTO shop.customers (name, tags, born, note) "
    "VALUES ('n{i}', '{{a,\"b c\"}}', '2000-01-01', '{{\"i\": {i}}}')",
    "INSERT INTO shop.orders (customer, status, total) VALUES ({i}, 'new', {i}.25)",
    "UPDATE shop.orders SET status = 'paid', total = total + 1 WHERE id % 7 = {i} % 7",
    "INSERT INTO shop.lines VALUES ({i}, 1, 'sku{m}', 1, 0.5), ({i}, 2, 'sku{m}', 2, 0.25) ON CONFLICT DO NOTHING",
    'DELETE FROM shop.lines WHERE "order" % 11 = {m}',
    "INSERT INTO shop.products VALUES ('sku{m}', 't', 0.1, '\\xdeadbeef') "
    "ON CONFLICT (sku) DO UPDATE SET weight = {i}.5",
    "INSERT INTO shop.stock VALUES ('sku{m}', gen_random_uuid(), {i}), (NULL, NULL, {i}), (NULL, NULL, {i})",
    "UPDATE shop.stock SET amount = amount + 1 WHERE amount % 5 = {m} % 5",
    "DELETE FROM shop.stock WHERE ctid = (SELECT min(ctid) FROM shop.stock WHERE sku IS NULL)",
    "INSERT INTO shop.events VALUES (clock_timestamp(), 'x', '{{\"n\":  {i}}}')",
    "INSERT INTO shop.documents SELECT {m}, 'd', string_agg(md5(g::text || {i}), '') FROM generate_series(1, 400) g "
    "ON CONFLICT (id) DO UPDATE SET title = 'd{i}'",
    "UPDATE shop.documents SET id = (SELECT max(id) + 1000 FROM shop.documents) WHERE id = {m}",
    "INSERT INTO shop.rates VALUES (date '2024-01-01' + {i}, {i} / 3.0, '1 day {m} min', '24:00') "
    "ON CONFLICT DO NOTHING",
    "INSERT INTO shop.settings VALUES ('k{m}', 'v{i}', {i} % 2 = 0) ON CONFLICT (key) DO UPDATE SET value = 'v{i}'",
    "INSERT INTO shop.codes VALUES ('c{m}', {i}) ON CONFLICT DO NOTHING",
    "UPDATE shop.codes SET id = id + 100000 WHERE id = {i}",
)


@dataclass
class Writer:
    """The load on the database."""

    thread: threading.Thread
    stop: threading.Event
    failures: list[BaseException]

    def check(self) -> None:
        assert not self.failures

    def end(self) -> None:
        self.stop.set()
        self.thread.join()
        self.check()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    made = Programs(tmp_path)
    yield made
    for process in made.started:
        made.kill(process)


@pytest.fixture
def shop(
    database: Database, kafka: KafkaBroker, pipeline_name: str, programs: Programs, lake: Path
) -> Iterator[Writer]:
    """The database, written to until the test says stop."""
    database.execute(SHOP)
    tables = [f"shop.{row[0]}" for row in database.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'shop'")]
    programs.config.write_text(
        f'name = "{pipeline_name}"\n'
        f'[postgres]\ndsn = "{database.dsn}"\nslot = "{pipeline_name}"\npublication_tables = {json.dumps(tables)}\n'
        f'[kafka]\nbootstrap_servers = "{kafka.bootstrap_servers}"\n'
        f'[topics]\npartitions = 3\n[lake]\npath = "{lake}"\n[spark]\nmaster = "local[2]"\n'
    )
    stop = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        picked = random.Random(7)
        try:
            with database.connect() as connection:
                for i in range(1, 1_000_000):
                    if stop.is_set():
                        return
                    with connection.transaction():
                        for _ in range(picked.randint(1, 4)):
                            statement = picked.choice(WRITES).format(i=i, m=i % 20)
                            connection.execute(statement.encode())
                    stop.wait(0.1)
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()

    yield Writer(writer, stop, failures)
    stop.set()
    writer.join()


@pytest.mark.soak
def test_another_database_is_followed_with_four_verbs_and_survives_a_kill(
    programs: Programs, shop: Writer, lake: Path
) -> None:
    """I1, I5, I8: init, produce, materialize, verify."""
    made = programs.run("init")
    assert made.returncode == 0, made.stderr
    assert "CREATE ROLE" in made.stdout

    def cuts() -> int:
        shop.check()
        return len(list((lake / "_cuts").glob("*.parquet")))

    producer, job = programs.start("produce"), programs.start("materialize")
    wait_until(lambda: cuts() > 3, "published cuts", ARRIVES_S)
    programs.kill(producer)
    producer = programs.start("produce")
    before = cuts()
    wait_until(lambda: cuts() > before + 3, "cuts after the producer's death", ARRIVES_S)

    # On the live source first, then on a quiet one.
    live = programs.run("verify", "--timeout", "240")
    assert live.returncode == 0, live.stdout + live.stderr
    shop.end()
    quiet = programs.run("verify", "--timeout", "240", "--json")
    assert quiet.returncode == 0, quiet.stdout + quiet.stderr
    assert len(json.loads(quiet.stdout)["tables"]) == 10

    for process, verb in ((producer, "produce"), (job, "materialize")):
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0, programs.log(verb)[-3000:]
        assert "Traceback" not in programs.log(verb)
