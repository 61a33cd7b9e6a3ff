"""All doors locked at once: TLS everywhere, a least-privileged role, SCRAM, and no right in Kafka but those printed.

Both programs and all verbs pass. Then one right at a time is missing, or one party is not trusted: each start ends with
exit code 2 and names what is missing, and what its remedy says lets the next one begin.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from tests import secured_servers as secured
from tests.fix_postgres import Database, new_database
from tests.fix_producer import ROOT, ProducerUnderTest
from tests.secured_servers import ADMIN, JOB, PRODUCER, Authority, SecuredKafka, SecuredPostgres
from tests.spark_consumer.program import START_S, environment
from tests.wait import wait_until
from walbridge.__main__ import main
from walbridge.embedded.jars import spark_jars
from walbridge.embedded.registry import SchemaRegistry

pytestmark = [pytest.mark.servers, pytest.mark.xdist_group("secured")]
KINDS = {
    "--topic": ResourceType.TOPIC,
    "--transactional-id": ResourceType.TRANSACTIONAL_ID,
    "--group": ResourceType.GROUP,
}
OPERATIONS = {operation.name.lower().replace("_", ""): operation for operation in AclOperation}
MISSING_IN_KAFKA = {
    ("topic", "DescribeConfigs"): ("settings of topic", "grant Describe and DescribeConfigs on the topics"),
    ("topic", "Read"): ("may not be read: ", "READ and DESCRIBE topic"),
    ("topic", "Write"): ("may not be written: ", "grant Write on topics "),
    ("transactional-id", "Write"): ("Kafka refuses transactional id ", "grant Write and Describe on that"),
    ("group", "Read"): ("may not be read: ", "and READ group walbridge-"),
}
"""What a start of the producer says without that right, and what of its remedy names the right."""
FOUND_BY_CHECK = {
    ("topic", "DescribeConfigs"): "grant Describe and DescribeConfigs on the topics",
    ("topic", "Read"): "may not be read: ",
    ("topic", "Write"): "rights: the topics of pipeline ",
    ("transactional-id", "Write"): "rights: Kafka refuses transactional ids ",
    ("group", "Read"): "and READ group walbridge-",
}
"""What ``walbridge check`` says meanwhile."""
OF_THE_JOB = {
    ("topic", "Read"): "the Spark job may not read ",
    ("group", "Read"): "the Spark job may not read with group ",
    ("topic", "Write"): "so it cannot ask for copies itself",
}
"""The same of the job's rights; the last is advice."""
TOPICS = 4
"""That take records as large as a row may be: one table's, and three of all tables."""
NO_ROLE = "grant the role what it lacks: walbridge init --admin-dsn does"
MISSING_IN_POSTGRES = {
    "ALTER ROLE {role} NOREPLICATION": NO_ROLE,
    "REVOKE CONNECT ON DATABASE {database} FROM PUBLIC, {role}": NO_ROLE,
    "REVOKE USAGE ON SCHEMA public FROM PUBLIC, {role}": 'GRANT USAGE ON SCHEMA "public" TO',
    "REVOKE SELECT ON t FROM {role}": 'GRANT SELECT ON "public"."t" TO',
}


@dataclass
class Locked:
    """The servers, and one pipeline of them."""

    producer: ProducerUnderTest
    authority: Authority
    kafka: SecuredKafka
    admin: AdminClient
    capsys: pytest.CaptureFixture[str]

    @property
    def role(self) -> str:
        return f"role_{self.producer.name}"

    def run(self, *verb: str, code: int = 0) -> str:
        """What a verb prints."""
        self.capsys.readouterr()
        found = main([*verb, "--config", str(self.producer.write_settings())])
        said = self.capsys.readouterr()
        assert found == code, f"{verb}\n{said.out}{said.err}"
        return said.out + said.err

    def run_job(self, code: int = 0) -> str:
        """What the job says until all that is in Kafka is in the lake."""
        config = str(self.producer.write_settings())
        job = [sys.executable, "-m", "walbridge.spark_consumer", "--once", "--config", config]
        done = subprocess.run(
            job, cwd=ROOT, env=environment({}), capture_output=True, text=True, timeout=START_S, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    @contextmanager
    def job(self) -> Iterator[None]:
        """The job runs in the block."""
        config = str(self.producer.write_settings())
        job = [sys.executable, "-m", "walbridge.spark_consumer", "--config", config]
        with (self.producer.folder / "job.log").open("w") as log:
            running = subprocess.Popen(job, cwd=ROOT, env=environment({}), stdout=log, stderr=log)
        try:
            yield
        finally:
            running.terminate()
            assert running.wait(START_S) == 0, (self.producer.folder / "job.log").read_text()

    def printed_rights(self) -> dict[tuple[str, str, str], AclBinding]:
        """Those that ``init --acls`` prints to be run: by principal, kind and operation."""
        found = {}
        for line in self.run("init", "--acls").splitlines():
            if not line.startswith("kafka-acls.sh"):
                continue
            words = shlex.split(line)
            options = dict(zip(words[3::2], words[4::2], strict=False))
            (kind,) = KINDS.keys() & options
            principal = {"$PRODUCER": PRODUCER, "$JOB": JOB}[options["--allow-principal"]]
            is_prefix = options.get("--resource-pattern-type") == "prefixed"
            pattern = ResourcePatternType.PREFIXED if is_prefix else ResourcePatternType.LITERAL
            for operation in re.findall(r"--operation (\w+)", line):
                of = OPERATIONS[operation.lower()], AclPermissionType.ALLOW
                resource = KINDS[kind], options[kind], pattern
                found[principal, kind.strip("-"), operation] = AclBinding(*resource, f"User:{principal}", "*", *of)
        return found

    def grant(self, *rights: AclBinding) -> None:
        for granted in self.admin.create_acls(list(rights)).values():
            granted.result()
        wait_until(lambda: all(map(self._is_granted, rights)), "the broker to know the rights")

    @contextmanager
    def without(self, right: AclBinding) -> Iterator[None]:
        """The right is missing, until the block ends."""
        for deleted in self.admin.delete_acls([_filter(right)]).values():
            deleted.result()
        wait_until(lambda: not self._is_granted(right), "the broker to forget the right")
        yield
        self.grant(right)

    def configure(self, topic: str, name: str, value: str) -> None:
        """``kafka-configs.sh --alter``, as an administrator."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result()

    def _is_granted(self, right: AclBinding) -> bool:
        return bool(self.admin.describe_acls(_filter(right)).result())


def _filter(right: AclBinding) -> AclBindingFilter:
    resource = right.restype, right.name, right.resource_pattern_type
    return AclBindingFilter(*resource, right.principal, right.host, right.operation, right.permission_type)


@pytest.fixture(scope="module")
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


def _refused(locked: Locked, words: str) -> str:
    """A start ends with exit code 2 and these words; its remedy."""
    refusal = locked.producer.refusal()
    error, _, remedy = refusal.partition("\nremedy: ")
    assert words in error, refusal
    assert "password" not in error or "authentication failed" in error
    return remedy


def test_both_programs_and_all_verbs_pass_with_the_rights_that_init_prints(locked: Locked) -> None:
    run, producer = locked.run, locked.producer
    rights = locked.printed_rights()
    locked.grant(*rights.values())
    run("init", "--admin-dsn", "user=postgres")
    assert "errors: 0" in run("check")
    running = producer.start_streaming()
    _assert_rights(locked)
    locked.run_job()
    assert '"key": {"id": 1}' in run("tail", "public.t")
    assert "current since" in run("status")
    run("copy", "t", "--wait")
    producer.database.execute("CREATE TABLE other (id int PRIMARY KEY); ALTER PUBLICATION walbridge ADD TABLE other")
    run("init", "--admin-dsn", "user=postgres")  # grants what the new table needs
    wait_until(lambda: "public.other  current" in run("tables"), "the table to be copied")
    producer.database.execute("DROP TABLE other")
    wait_until(lambda: "public.other  dropped" in run("tables"), "the table to be dropped")
    run("forget", "other")
    running.stop()

    # The same principals by their certificates: nothing else than the connection differs.
    authority = locked.authority.certificate
    kafka = producer.settings["kafka"]
    kafka |= {"bootstrap_servers": locked.kafka.mtls_servers, "client_files": {}, "spark_files": {}}
    kafka["client"] = secured.mtls_of(locked.authority.issue(PRODUCER), authority)
    kafka["spark"] = secured.java_mtls(locked.authority.issue(JOB), authority)
    producer.database.execute("INSERT INTO t VALUES (2)")
    running = producer.start_streaming()
    wait_until(lambda: '"key": {"id": 2}' in run("tail", "public.t"), "the row of a client with a certificate")
    with locked.job():
        assert '"equal": true' in run("verify", "--json", "--timeout", str(START_S))
    assert "errors: 0" in run("check")
    _assert_rights(locked)
    assert run("sql", "--json", "SELECT count(*) AS rows FROM t").splitlines()[0] == '{"rows": 2}'
    running.stop()

    told = run("drop", "--yes", code=2)
    assert (
        "remedy: give walbridge's principal DELETE on it (and delete.topic.enable=true), then run walbridge drop"
        in told
    )
    locked.grant(*_drop_right(rights))
    run("drop", "--yes")


def _assert_rights(locked: Locked) -> None:
    """As both programs log in."""
    said = locked.run("check")
    assert re.search(r"walbridge produce may write its \d topics, make more for tables that come, and open", said), said
    assert re.search(r"walbridge materialize may read its \d topics", said), said


def _drop_right(rights: dict[tuple[str, str, str], AclBinding]) -> Iterator[AclBinding]:
    of = rights[PRODUCER, "topic", "Write"]
    resource = of.restype, of.name, of.resource_pattern_type
    yield AclBinding(*resource, of.principal, "*", AclOperation.DELETE, AclPermissionType.ALLOW)


def test_each_right_that_is_missing_in_kafka_is_named_and_granting_it_mends_the_start(locked: Locked) -> None:
    rights = locked.printed_rights()
    locked.grant(*rights.values())
    with locked.without(rights[PRODUCER, "topic", "Create"]):
        said = locked.run("init", "--admin-dsn", "user=postgres", code=2)
        assert re.search(r"error: topic \S+ could not be created: .*uthorization failed", said)
        assert "grant Create on it to walbridge's principal" in said
    locked.run("init")
    locked.producer.start_streaming().stop()
    of_producer = {(kind, operation) for who, kind, operation in rights if who == PRODUCER}
    assert of_producer == MISSING_IN_KAFKA.keys() | {("topic", "Create")}

    for (kind, operation), (words, told) in MISSING_IN_KAFKA.items():
        with locked.without(rights[PRODUCER, kind, operation]):
            locked.producer.database.execute("INSERT INTO t SELECT max(id) + 1 FROM t")
            assert told in _refused(locked, words)
            assert FOUND_BY_CHECK[kind, operation] in locked.run("check", code=2)
            if (kind, operation) == ("topic", "Write"):
                progress = f"{locked.producer.name}.progress"
                assert f"let walbridge's principal WRITE topic {progress}" in locked.run("copy", "t", code=2)
    locked.run("copy", "t")
    locked.producer.settings["producer"] = {"row_bytes_max": 20 * 2**20}
    for _ in range(TOPICS):
        remedy = _refused(locked, "takes smaller records than [producer] row_bytes_max needs")
        (command,) = re.findall(r"--topic (\S+) --add-config (\S+)=(\d+); or lower \[producer\]", remedy)
        locked.configure(*command)
    locked.producer.start_streaming()
    newest = f'"key": {{"id": {len(MISSING_IN_KAFKA) + 1}}}'
    wait_until(lambda: newest in locked.run("tail", "public.t"), "the rows that were written meanwhile")


def test_check_says_of_rights_what_it_asked_and_asks_whether_a_table_may_come(locked: Locked) -> None:
    rights = locked.printed_rights()
    locked.grant(*rights.values())
    password = Path(locked.producer.settings["postgres"]["password_file"])
    password.write_text("none yet")
    said = locked.run("check", code=2)  # there is no role yet
    password.unlink()
    assert "may write its topics" not in said, said
    assert "may read its topics" not in said, said
    assert "walbridge produce may open transactions; Write on its topics is asked for once they are there" in said, said
    locked.run("init", "--admin-dsn", "user=postgres")
    with locked.without(rights[PRODUCER, "topic", "Create"]):
        said = locked.run("check")
        assert "rights: a topic for a table that comes could not be made: " in said, said
        assert "grant Create on topics " in said
    _assert_rights(locked)


def test_each_right_that_is_missing_in_postgres_is_named_and_init_grants_it_again(locked: Locked) -> None:
    locked.grant(*locked.printed_rights().values())
    init = ("init", "--admin-dsn", "user=postgres")
    locked.run(*init)
    for revoke, told in MISSING_IN_POSTGRES.items():
        database = locked.producer.database
        database.execute(revoke.format(role=locked.role, database=database.name))
        assert told in _refused(locked, "")
        locked.run(*init)
    locked.producer.start_streaming()


def test_who_is_not_trusted_or_not_let_in_is_named_with_the_setting_that_mends_it(
    locked: Locked, tmp_path: Path
) -> None:
    locked.grant(*locked.printed_rights().values())
    locked.run("init", "--admin-dsn", "user=postgres")
    stranger = Authority(tmp_path).certificate
    settings = locked.producer.settings
    wrong = tmp_path / "wrong"
    wrong.write_text("hunter2")

    def refused(section: str, name: str, value: object, words: str) -> str:
        right = settings[section][name]
        settings[section][name] = value
        try:
            return _refused(locked, words)
        finally:
            settings[section][name] = right

    trusted = str(locked.authority.certificate)
    dsn = settings["postgres"]["dsn"].replace(trusted, str(stranger))
    assert "sslrootcert is the certificate of who signed" in refused("postgres", "dsn", dsn, "do not trust each other")
    assert "check user and password" in refused("postgres", "password_file", str(wrong), "(28P01)")
    client = settings["kafka"]["client"] | {"ssl.ca.location": str(stranger)}
    assert "correct [kafka.client]" in refused("kafka", "client", client, "does not let walbridge in")
    files = {"sasl.password": str(wrong)}
    assert "correct [kafka.client]" in refused("kafka", "client_files", files, "uthentication failed")
    mend = refused("topics", "registry_ca_file", str(stranger), "is not to be trusted")
    assert "name the certificate of its authority in [topics] registry_ca_file" in mend
    locked.producer.start_streaming()


@pytest.mark.soak
def test_topics_that_the_job_may_not_read_are_named_and_granting_it_mends_the_next_run(locked: Locked) -> None:
    rights = locked.printed_rights()
    locked.grant(*rights.values())
    locked.run("init", "--admin-dsn", "user=postgres")
    locked.producer.start_streaming()
    with locked.without(rights[JOB, "topic", "Read"]):
        said = locked.run_job(code=2)
        assert "Not authorized to access topics" in said
        assert "remedy: grant the job's principal Read on topics" in said
    locked.run_job()


def test_rights_that_the_job_lacks_are_found_by_check_and_granting_them_mends_that(locked: Locked) -> None:
    """Asked with its own login, and without a JVM."""
    rights = locked.printed_rights()
    locked.grant(*rights.values())
    locked.run("init", "--admin-dsn", "user=postgres")
    locked.producer.start_streaming()
    for (kind, operation), words in OF_THE_JOB.items():
        with locked.without(rights[JOB, kind, operation]):
            said = locked.run("check", code=0 if operation == "Write" else 2)
            assert words in said, said
            assert "walbridge init --acls prints the command" in said
    unseen = "the brokers' settings may not be seen"
    assert unseen in locked.run("check")
    cluster = ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL
    of = AclOperation.DESCRIBE_CONFIGS, AclPermissionType.ALLOW
    locked.grant(AclBinding(*cluster, f"User:{PRODUCER}", "*", *of))
    assert unseen not in locked.run("check")
    secret = Path(locked.producer.settings["kafka"]["spark_files"]["sasl.jaas.config"])
    right = secret.read_text()
    secret.write_text(secured.SCRAM.format(JOB, "wrong"))
    said = locked.run("check", code=2)
    assert "rights: as the Spark job: Kafka at" in said, said
    assert "check [kafka.spark]: security.protocol, sasl.mechanism, sasl.jaas.config" in said
    secret.unlink()
    said = locked.run("check")
    assert f"not asked as the Spark job: [kafka] spark_files: {secret} cannot be read" in said, said
    secret.write_text(right)
    _assert_rights(locked)
