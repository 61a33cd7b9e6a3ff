"""The servers of all tests of security, once for all of them: they take seconds to come up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests import secured_servers as secured
from tests.end_to_end.security.locked import Locked
from tests.fix_postgres import Database, new_database
from tests.fix_producer import ProducerUnderTest
from tests.secured_servers import ADMIN, JOB, PRODUCER, Authority, SecuredKafka, SecuredPostgres
from walbridge.embedded.jars import spark_jars
from walbridge.embedded.registry import SchemaRegistry


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Authority, Any, SecuredKafka, SchemaRegistry]]:
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    with (
        SecuredPostgres(authority.issue("postgres")) as postgres,
        SecuredKafka(authority) as kafka,
        SchemaRegistry(certificate=authority.issue("registry")) as registry,
    ):
        yield authority, postgres, kafka, registry


@pytest.fixture
def locked(
    servers: tuple[Authority, SecuredPostgres, SecuredKafka, SchemaRegistry],
    pipeline_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Locked]:
    """Nothing is made of it yet, and it has no rights."""
    authority, postgres, kafka, registry = servers
    login = secured.scram_of(ADMIN, authority.certificate)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, **login, "sasl.password": ADMIN})
    with ExitStack() as stack:
        database = stack.enter_context(new_database(postgres))
        database.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
        producer = ProducerUnderTest(pipeline_name.replace("-", "_"), database, kafka, tmp_path)
        stack.callback(_drop_role, database, f"role_{producer.name}")
        stack.callback(producer.kill_all)
        made = Locked(producer, authority, kafka, admin, capsys)
        producer.settings |= _settings(made, database, registry, tmp_path)
        yield made


def _settings(locked: Locked, database: Database, registry: SchemaRegistry, folder: Path) -> dict[str, Any]:
    authority = locked.authority.certificate
    (folder / "kafka_password").write_text(PRODUCER)
    (folder / "kafka_jaas").write_text(secured.SCRAM.format(JOB, JOB))
    at = f"host=127.0.0.1 port={database.server.port} dbname={database.name}"
    return {
        "postgres": {
            "dsn": f"{at} user={locked.role} sslmode=verify-full sslrootcert={authority}",
            "password_file": str(folder / "password"),
            "publication_tables": ["public.t"],
            "start_timeout_s": 5,
        },
        "kafka": {
            "client": secured.scram_of(PRODUCER, authority),
            "client_files": {"sasl.password": str(folder / "kafka_password")},
            "spark": secured.java_scram(authority),
            "spark_files": {"sasl.jaas.config": str(folder / "kafka_jaas")},
        },
        "topics": {"format": "confluent", "registry_url": registry.url, "registry_ca_file": str(authority)},
        "lake": {"path": str(folder / "lake")},
        "spark": {"jars_dir": str(spark_jars()[0].parent), "master": "local[2]"},
    }


def _drop_role(database: Database, role: str) -> None:
    if database.rows("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)):
        database.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
