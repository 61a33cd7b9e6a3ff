"""A night of both programs in which every secret and every row value can be told apart.

In: the shared servers. Out: ``Night``: all that the programs showed or left anywhere, by place.
Each secret is a word that is nowhere else; it is given in every way there is to give one, and
the night goes wrong on purpose: lost sessions, changed passwords, a row that is too large,
an event whose bytes were cut short.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import psutil
from confluent_kafka import Producer
from deltalake import DeltaTable

from tests.faults.canaries import Canaries, Night, contents
from tests.faults.command_lines import CommandLines
from tests.fix_postgres import Database
from tests.fix_producer import ROOT, ProducerUnderTest, Running, refusal_of
from tests.wait import wait_until
from walbridge.embedded.jars import spark_jars
from walbridge.embedded.java import find_java
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.control.cut import PartitionRange, TableChanges, encode_cut
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import parse_lsn
from walbridge.schemas.topics import cuts_topic, data_topic, metadata_topic, progress_topic, status_topic
from walbridge.spark_consumer.read import published_at

START_S = 240.0
ROW_BYTES_MAX = 100_000
METRICS_LINE = re.compile(r"event=metrics host=\S+ port=(\d+)")


class Stage:
    """One night's settings, programs and what they say."""

    def __init__(self, database: Database, kafka: KafkaBroker, folder: Path) -> None:
        self.folder, self.database, self.kafka = folder, database, kafka
        name = f"t{uuid.uuid4().hex[:10]}"
        self.role = f"role_{name}"
        self.canaries = Canaries()
        self.lake = folder / "lake"
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        self.producer = ProducerUnderTest(name, database, kafka, folder, as_command=True)
        self.producer.settings = self._settings()
        self.refusals: list[str] = []
        self.said = folder / "job.log"
        self.job: subprocess.Popen[bytes] | None = None

    def secret_file(self, given: str, text: str = "{}") -> str:
        path = self.folder / f"secret-{len(self.canaries.secrets)}"
        path.touch(mode=0o600)
        path.write_text(text.format(self.canaries.secret(given)) + "\n")
        return str(path)

    def dsn(self, password: str = "") -> str:
        where = self.database.dsn.replace("user=postgres", f"user={self.role}")
        return f"{where} password={password}" if password else where

    def _settings(self) -> dict[str, dict[str, Any]]:
        """A secret in every place that takes one; none of Kafka's and Spark's is used over PLAINTEXT."""
        secret = self.canaries.secret
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required username='u' password='{}';"
        return {
            "postgres": {"dsn": self.dsn(secret("[postgres] dsn"))},
            "producer": {"row_bytes_max": ROW_BYTES_MAX, "on_table_error": "stop", "idle_cut_interval_ms": 50},
            "kafka": {
                "bootstrap_servers": self.kafka.bootstrap_servers,
                "client": {"ssl.key.password": secret("[kafka.client]")},
                "client_files": {"sasl.password": self.secret_file("[kafka.client_files]")},
                "spark": {"ssl.keystore.password": secret("[kafka.spark]")},
                "spark_files": {"sasl.jaas.config": self.secret_file("[kafka.spark_files]", login)},
            },
            "lake": {
                "path": str(self.lake),
                "storage_options": {"AWS_SECRET_ACCESS_KEY": secret("[lake.storage_options]")},
            },
            "spark": {
                "jars_dir": str(spark_jars()[0].parent),
                "master": "local[2]",
                "conf": {
                    "spark.hadoop.fs.s3a.secret.key": secret("[spark.conf]"),
                    "spark.local.dir": str(self.scratch),
                },
            },
        }

    def change_password(self, password: str) -> None:
        """Of the role; open sessions stay, so they are ended too."""
        self.database.execute(f"ALTER ROLE {self.role} PASSWORD '{password}'")
        self.end_sessions()

    def end_sessions(self) -> None:
        self.database.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{self.role}'")

    def insert(self, text: str) -> None:
        self.database.execute("INSERT INTO orders VALUES (%s, %s)", (text, self.canaries.value("a column")))

    def start_job(self) -> None:
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
        environ |= {
            "JAVA_HOME": str(find_java().java_home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TMPDIR": str(self.scratch),
        }
        command = [sys.executable, "-m", "walbridge.spark_consumer", "--config", str(self.folder / "walbridge.toml")]
        with self.said.open("wb") as out:
            self.job = subprocess.Popen(
                command, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def end_job_that_says(self, text: str) -> None:
        """Stop the job once it has said so."""
        assert self.job is not None
        wait_until(lambda: text in self.said.read_text(), f"{text!r} in the job's log", START_S)
        self.job.terminate()
        assert self.job.wait(START_S) == 0, self.said.read_text()[-3000:]

    def kill_all(self) -> None:
        self.producer.kill_all()
        if self.job is not None and self.job.poll() is None:
            for each in (*psutil.Process(self.job.pid).children(recursive=True), self.job):
                each.kill()
            self.job.wait()

    def wait_published(self) -> None:
        """Until a reader of the lake finds what is committed now."""
        assert self.job is not None
        lsn = parse_lsn(self.database.value("SELECT pg_current_wal_flush_lsn()::text"))

        def there() -> bool:
            assert self.job is not None
            assert self.job.poll() is None, f"the job ended:\n{self.said.read_text()[-3000:]}"
            try:
                return published_at(str(self.lake)).end_lsn >= lsn
            except OperatorError:  # nothing is published yet
                return False

        wait_until(there, "the cut to be published", START_S, poll_s=0.1)

    def command(self, *arguments: str, **environ: str) -> bytes:
        """What a verb of walbridge says."""
        command = [sys.executable, "-m", "walbridge", *arguments, "--config", str(self.folder / "walbridge.toml")]
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | environ, capture_output=True, timeout=180, check=False
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return done.stdout + done.stderr

    def send_event_cut_short(self) -> None:
        """An event that lost its end, in a cut that fits: Kafka keeps what it is given."""
        with self.producer.topics() as topics:
            last = topics.cuts()[-1]
            relation = topics.relations()[-1].table.relation_id
            topic = data_topic(self.producer.name, "public", "orders")
            event = topics.reader(topic).read_to_end()[-1]
            schema_ids = (topics.relations()[-1].schema_id,)
        offsets: list[int] = []
        writer = Producer({"bootstrap.servers": self.kafka.bootstrap_servers})
        writer.produce(
            topic,
            (event.value() or b"")[:-9],
            event.key(),
            partition=0,
            on_delivery=lambda _, message: offsets.append(message.offset() or 0),
        )
        assert writer.flush(60) == 0
        cut = replace(
            last,
            cut_id=last.cut_id + 1,
            previous_end_lsn=last.end_lsn,
            end_lsn=last.end_lsn + 16,
            partitions=(PartitionRange(topic, 0, offsets[0], offsets[0] + 1, 1),),
            tables=(TableChanges(relation, topic, schema_ids, 1),),
        )
        writer.produce(cuts_topic(self.producer.name), encode_cut(cut), partition=0)
        assert writer.flush(60) == 0


def port_in(log: str) -> int:
    """Of the endpoint that the program opened last."""
    return int(METRICS_LINE.findall(log)[-1])


def scrape(port: int, path: str) -> bytes:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return bytes(answer.read())
    except HTTPError as unhealthy:
        return unhealthy.read()


def spend_night(stage: Stage) -> Night:
    """All that happens; each step waits for its outcome."""
    secret, value, producer = stage.canaries.secret, stage.canaries.value, stage.producer
    database = stage.database
    database.execute("CREATE TABLE orders (id text PRIMARY KEY, note text)")
    database.execute(f"CREATE ROLE {stage.role} LOGIN REPLICATION PASSWORD '{secret('[postgres] dsn')}'")
    database.execute(f"GRANT SELECT ON orders TO {stage.role}")
    producer.publish("orders")
    stage.insert(value("a copied key"))
    with CommandLines(stage.scratch, secret("[spark.conf]")) as watch:
        first = producer.start_streaming()
        stage.start_job()
        stage.insert(value("a key"))
        stage.end_sessions()
        wait_until(lambda: first.log.count("event=streaming") >= 2, "the stream to begin again")
        last = change_passwords(stage, first)
        stage.insert("between")
        stage.wait_published()
        seen = look_around(stage, last)
        environment = Path(f"/proc/{last.process.pid}/environ").read_bytes()
        stage.insert(value("a key of a row too large") + "x" * 2 * ROW_BYTES_MAX)
        stage.refusals.append(refusal_of(last))
        stage.send_event_cut_short()
        stage.end_job_that_says("a table takes no more changes until it is copied again")
    logs = b"".join(log.read_bytes() for log in sorted(stage.folder.glob("producer-*.log")))
    seen |= {
        "the producer's log": logs,
        "the job's log": stage.said.read_bytes(),
        "command lines": b"\n".join(watch.seen),
        "what the job left in its scratch folder": contents(stage.scratch.rglob("*")),
        "the checkpoint": contents((stage.lake / "_checkpoint").rglob("*")),
        "_cuts": contents((stage.lake / "_cuts").rglob("*")) + table_text(stage.lake / "_cuts"),
        "_status": contents((stage.lake / "_status").rglob("*")),
        "the lake": contents(stage.lake.rglob("*")) + table_text(stage.lake / "public" / "orders"),
    }
    return Night(stage.canaries, seen | topics_text(stage), environment, watch.properties_files, stage.refusals)


def change_passwords(stage: Stage, running: Running) -> Running:
    """The running producer is refused with the old one; then from a file, then by libpq's own variable."""
    secret, producer = stage.canaries.secret, stage.producer
    password_file = stage.secret_file("[postgres] password_file")
    stage.change_password(secret("[postgres] password_file"))
    stage.refusals.append(refusal_of(running))
    producer.settings["postgres"] = {"dsn": stage.dsn(), "password_file": password_file}
    second = producer.start_streaming()
    stage.change_password(secret("PGPASSFILE"))
    stage.refusals.append(refusal_of(second))
    producer.settings["postgres"] = {"dsn": stage.dsn()}
    passfile = stage.secret_file("PGPASSFILE", "*:*:*:*:{}")
    environ = {"PGPASSFILE": passfile, "WALBRIDGE_KAFKA__CLIENT__SASL__PASSWORD": secret("a variable of ours")}
    return producer.start_streaming(environ=environ)


def look_around(stage: Stage, last: Running) -> dict[str, bytes]:
    """What operators and their tools ask while all is well."""
    ports = {"producer": port_in(last.log), "job": port_in(stage.said.read_text())}
    seen = {
        f"{path} of the {program}": scrape(port, path)
        for program, port in ports.items()
        for path in ("/metrics", "/healthz")
    }
    dsn = stage.dsn(stage.canaries.secret("PGPASSFILE"))
    seen["walbridge check"] = stage.command("check", "--json", WALBRIDGE_POSTGRES__DSN=dsn)
    seen["walbridge status"] = stage.command("status", "--json", PGPASSWORD=stage.canaries.secret("PGPASSFILE"))
    seen["walbridge config"] = stage.command("config", WALBRIDGE_POSTGRES__DSN=dsn)
    return seen


def topics_text(stage: Stage) -> dict[str, bytes]:
    """Keys, values and headers of every record, as they are."""
    name = stage.producer.name
    groups = {
        "the control topics": [metadata_topic(name), cuts_topic(name), progress_topic(name), status_topic(name)],
        "the data topic": [data_topic(name, "public", "orders")],
    }
    found = {}
    with stage.producer.topics() as topics:
        for group, members in groups.items():
            messages = [message for topic in members for message in topics.reader(topic).read_to_end()]
            parts = [(each.key() or b"") + (each.value() or b"") + repr(each.headers()).encode() for each in messages]
            assert parts
            found[group] = b"\n".join(parts)
    return found


def table_text(path: Path) -> bytes:
    """Every value of a Delta table: Parquet files are compressed."""
    return repr(DeltaTable(str(path)).to_pyarrow_table().to_pylist()).encode()
