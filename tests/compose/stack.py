"""The stack of ``docker-compose.yml`` under a project name and ports of its own.

In: a Docker daemon. Out: ``Stack``: compose's verbs, SQL inside the container, ``walbridge verify``
as the oracle, and what the daemon says of each container. Nothing of it outlives ``close``.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.wait import wait_until
from walbridge.embedded.server_process import free_port

ROOT = Path(__file__).parents[2]
PORTS = ("POSTGRES_PORT", "KAFKA_PORT", "PRODUCER_METRICS_PORT", "JOB_METRICS_PORT", "SPARK_UI_PORT")
BUILD_S, UP_S, DOWN_S, ANSWER_S = 1800, 600, 300, 600
TAG = "compose-test"

Result = subprocess.CompletedProcess[str]


def refusal() -> str | None:
    """Why the stack cannot run here; None where it can."""
    if shutil.which("docker") is None:
        return "there is no docker on PATH"
    for command, what in (
        (["docker", "info"], "no Docker daemon answers"),
        (["docker", "compose", "version"], "no compose"),
    ):
        asked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if asked.returncode:
            return f"{what}: {(asked.stderr or asked.stdout).strip().splitlines()[-1][:200]}"
    return None


class Stack:
    """One project. ``seconds`` tells how long each step took."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self.project = f"walbridge-test-{uuid.uuid4().hex[:8]}"
        ports = {name: str(free_port()) for name in PORTS}
        self.environ = {
            **os.environ,
            "WALBRIDGE_VERSION": TAG,
            "TRIGGER_INTERVAL_MS": "500",
            "EXECUTOR_TIMEOUT_S": "20",
            **ports,
            **(variables or {}),
        }
        self.seconds: dict[str, float] = {}

    def compose(
        self, *arguments: str, timeout_s: float = ANSWER_S, check: bool = True, stdin: str | None = None
    ) -> Result:
        """``docker compose``; its words are in the failure."""
        # An .env of whoever runs this is not part of the test.
        command = ["docker", "compose", "--env-file", os.devnull, "-p", self.project, *arguments]
        ended = subprocess.run(
            command,
            cwd=ROOT,
            env=self.environ,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if check and ended.returncode:
            words = f"{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}"
            raise AssertionError(f"{' '.join(command)} ended with {ended.returncode}:\n{words}")
        return ended

    def step(self, name: str, *arguments: str, timeout_s: float) -> None:
        """A verb whose duration is kept."""
        began = time.monotonic()
        with self._logs_told():
            self.compose(*arguments, timeout_s=timeout_s)
        self.seconds[name] = round(time.monotonic() - began, 1)

    @contextlib.contextmanager
    def _logs_told(self) -> Iterator[None]:
        """What the services said last is in the failure: their containers are gone before anybody looks."""
        try:
            yield
        except AssertionError as failed:
            logs = self.compose("logs", "--no-color", "--tail=30", check=False)
            raise AssertionError(f"{failed}\n{logs.stdout[-12000:]}") from None

    def build(self) -> None:
        self.step("build", "build", "--quiet", timeout_s=BUILD_S)

    def up(self, *arguments: str, name: str = "up") -> None:
        """Returns when all that can be healthy is."""
        self.step(name, "up", "--detach", "--wait", f"--wait-timeout={UP_S}", *arguments, timeout_s=UP_S + 60)

    def down(self, *arguments: str, name: str = "down") -> None:
        self.step(name, "down", "--remove-orphans", *arguments, timeout_s=DOWN_S)

    def close(self) -> None:
        """Nothing is left, whatever happened."""
        self.compose("down", "--volumes", "--remove-orphans", "--timeout=5", timeout_s=DOWN_S, check=False)

    def containers(self, *, all_states: bool = True) -> list[dict[str, Any]]:
        """What ``docker inspect`` says of each container of the project."""
        arguments = ["--all"] if all_states else []
        ids = docker("ps", *arguments, "--quiet", f"--filter=label=com.docker.compose.project={self.project}").split()
        found: list[dict[str, Any]] = json.loads(docker("inspect", *ids)) if ids else []
        return found

    def of(self, service: str) -> list[dict[str, Any]]:
        """The containers of one service, in order of their number."""
        mine = [each for each in self.containers() if service_of(each) == service]
        return sorted(mine, key=lambda each: int(each["Config"]["Labels"]["com.docker.compose.container-number"]))

    def restarts(self) -> dict[str, int]:
        """How often Docker has started each service again."""
        return {service_of(each): each["RestartCount"] for each in self.containers()}

    def kill(self, *services: str) -> None:
        """All at the same moment, as a crash does."""
        crash([container for service in services for container in self.of(service)])

    def wait_healthy(self, *services: str, timeout_s: float = UP_S) -> None:
        def are_healthy() -> bool:
            return all(health_of(each) == "healthy" for service in services for each in self.of(service))

        wait_until(are_healthy, f"{', '.join(services)} to be healthy", timeout_s, poll_s=0.5)

    def sql(self, text: str) -> str:
        """psql as superuser, in the container."""
        command = ["exec", "-T", "postgres", "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
        return self.compose(*command, "-U", "postgres", "shop", stdin=text).stdout.strip()

    def walbridge(self, *arguments: str, service: str = "job", check: bool = True) -> Result:
        return self.compose("exec", "-T", service, "walbridge", *arguments, check=check)

    def python(self, program: str) -> Any:
        """What a program prints as JSON that runs beside the job."""
        return json.loads(self.compose("exec", "-T", "job", "python", "-", stdin=program).stdout)

    def check_equal(self, timeout_s: float = 300) -> None:
        """I8: the newest published cut equals the source, which is written to all the while."""
        with self._logs_told():
            self.walbridge("verify", f"--timeout={timeout_s:.0f}")

    def published(self) -> dict[str, Any]:
        """The newest published cut: its epoch, id and LSN, and rows and columns of each table."""
        found: list[dict[str, Any]] = []

        def is_published() -> bool:
            found.extend(self.python(PUBLISHED))
            return bool(found)

        wait_until(is_published, "the first published cut", ANSWER_S, poll_s=0.5)
        return found[-1]

    def logs(self, service: str) -> str:
        """All that a service's containers said."""
        commands = [["docker", "logs", each["Id"]] for each in self.of(service)]
        return "".join(
            subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=ANSWER_S, check=True
            ).stdout
            for command in commands
        )


PUBLISHED = """
import json, os
from deltalake import DeltaTable
from walbridge.spark_consumer.read import published

def shown(row):
    tables = {each.name: DeltaTable(f"/lake/{each.path}", version=each.version) for each in row.tables}
    columns = {name: [field.name for field in table.schema().fields] for name, table in tables.items()}
    rows = {name: table.to_pyarrow_table(columns=columns[name][:1]).num_rows for name, table in tables.items()}
    return {"epoch": row.epoch, "cut": row.to_cut, "lsn": row.end_lsn, "rows": rows, "columns": columns}

print(json.dumps([shown(row) for row in published("/lake")[-1:]]), flush=True)
os._exit(0)  # a thread of Arrow's that lives still would abort the interpreter (apache/arrow#34314)
"""


def crash(containers: Sequence[Mapping[str, Any]]) -> None:
    """SIGKILL to all that runs in them. Docker takes ``docker kill`` for a wish, and would not start them again."""
    commands = [["docker", "exec", each["Id"], "sh", "-c", "kill -KILL -1"] for each in containers]
    # Each is killed with its container, so how it ended says nothing.
    started = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for command in commands]
    for each in started:
        each.wait(ANSWER_S)


def service_of(container: Mapping[str, Any]) -> str:
    return str(container["Config"]["Labels"]["com.docker.compose.service"])


def health_of(container: Mapping[str, Any]) -> str:
    """``healthy``, ``starting``, ``unhealthy``; of a container without a check, its status."""
    state = container["State"]
    return str(state["Health"]["Status"] if state["Status"] == "running" and "Health" in state else state["Status"])


def docker(*arguments: str, check: bool = True) -> str:
    """The daemon's answer."""
    ended = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=ANSWER_S, check=False)
    if check and ended.returncode:
        raise AssertionError(f"docker {' '.join(arguments)}: {ended.stderr[-1000:]}")
    return ended.stdout
