"""What the demo runs on: Postgres with pgbench's tables, Kafka, and a settings file for both.

In: the scale. Out: servers that end with the block, a database ready to be followed.
"""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from walbridge.demo.demo_folder import DemoFolder
from walbridge.embedded.jars import fetch
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import ENVIRON, PostgresServer
from walbridge.embedded.server_process import ServerProcess

NAME = "demo"
TABLES = tuple(f"public.pgbench_{name}" for name in ("accounts", "branches", "history", "tellers"))
INIT_S = 3600.0

_SETTINGS = """\
# Made by `walbridge demo`. One's own looks the same.
name = {name}

[postgres]
dsn = {dsn}
publication_tables = {tables}

[kafka]
bootstrap_servers = {bootstrap_servers}

[topics]
partitions = 2

[lake]
path = {lake}
publish_interval_ms = 500

[spark]
jars_dir = {jars_dir}
master = "local[2]"
conf = {{"spark.ui.showConsoleProgress" = false, "spark.driver.extraJavaOptions" = {java_options}}}

[metrics]
producer_port = 0
job_port = 0
"""


@dataclass(frozen=True, slots=True)
class Servers:
    """Both servers, running."""

    postgres: PostgresServer
    kafka: KafkaBroker


@contextlib.contextmanager
def started(folder: DemoFolder, say: Callable[[str], None], *, keep: bool) -> Iterator[Servers]:
    """Start both servers, and write the settings file. Their data is removed unless ``keep``."""
    say("fetching Spark's jars, if they are not here yet")
    jars = fetch(["spark"], say)["spark"]
    with contextlib.ExitStack() as stack:
        say("starting Postgres")
        postgres = stack.enter_context(PostgresServer(keep=keep))
        say(f"starting Kafka (Postgres is on port {postgres.port})")
        kafka = stack.enter_context(KafkaBroker(keep=keep, report=say))
        say(f"both are up (Kafka is on port {kafka.port})")
        values = {
            "name": NAME,
            "dsn": postgres.dsn(),
            "tables": list(TABLES),
            "bootstrap_servers": kafka.bootstrap_servers,
            "lake": str(folder.lake),
            "jars_dir": str(jars),
            "java_options": f'"-Djava.io.tmpdir={folder.scratch}"',  # Spark's folders are there too
        }
        # A JSON string or list is also a TOML one.
        folder.config.write_text(_SETTINGS.format_map({key: json.dumps(value) for key, value in values.items()}))
        yield Servers(postgres, kafka)


def make_tables(postgres: PostgresServer, scale: int, folder: DemoFolder) -> None:
    """``pgbench -i``: 100,000 accounts per unit of scale.

    Raises:
        OperatorError: it failed; the tail of its log is in the text.
    """
    command = [str(postgres.bin("pgbench")), "--initialize", "--quiet", f"--scale={scale}", postgres.dsn()]
    process = ServerProcess("pgbench --initialize", command, folder.log("pgbench-init"), environ=ENVIRON)
    process.finish(INIT_S)
