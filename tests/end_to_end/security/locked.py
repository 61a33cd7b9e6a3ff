"""A pipeline between doors that are all locked, its rights in Kafka granted and taken one by one."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

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

from tests.fix_producer import ROOT, ProducerUnderTest, Running
from tests.secured_servers import JOB, PRODUCER, Authority, SecuredKafka
from tests.spark_consumer.program import START_S, environment
from tests.wait import wait_until
from walbridge.__main__ import main

KINDS = {
    "--topic": ResourceType.TOPIC,
    "--transactional-id": ResourceType.TRANSACTIONAL_ID,
    "--group": ResourceType.GROUP,
}
OPERATIONS = {operation.name.lower().replace("_", ""): operation for operation in AclOperation}


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

    def start_streaming(self) -> Running:
        """It has more patience than a start that is refused: the broker may be making its log of transactions."""
        return self.producer.start_streaming(environ={"WALBRIDGE_POSTGRES__START_TIMEOUT_S": "60"})

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


def refused(locked: Locked, words: str) -> str:
    """A start ends with exit code 2 and these words; its remedy."""
    refusal = locked.producer.refusal()
    error, _, remedy = refusal.partition("\nremedy: ")
    assert words in error, refusal
    assert "password" not in error or "authentication failed" in error
    return remedy


def assert_rights(locked: Locked) -> None:
    """As both programs log in."""
    said = locked.run("check")
    assert re.search(r"walbridge produce may write its \d topics, make more for tables that come, and open", said), said
    assert re.search(r"walbridge materialize may read its \d topics", said), said
