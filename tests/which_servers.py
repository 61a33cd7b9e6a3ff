"""Where the shared Postgres and Kafka of a run come from: containers or embedded servers.

``WALBRIDGE_TEST_SERVERS=docker|embedded`` decides by hand; else a Docker daemon that answers does.
Its client is imported only where there may be one.
"""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path

import pytest

VARIABLE = "WALBRIDGE_TEST_SERVERS"
DOCKER, EMBEDDED = "docker", "embedded"
PULL_S = 120
SOCKET = Path("/var/run/docker.sock")
POSTGRES_IMAGE = "postgres:18"
KAFKA_IMAGE = "apache/kafka:4.3.1"


@functools.cache
def chosen_servers() -> tuple[str, str]:
    """``docker`` or ``embedded``, and why.

    Raises:
        UsageError: the variable says what cannot be.
    """
    choice = os.environ.get(VARIABLE, "")
    if choice not in ("", DOCKER, EMBEDDED):
        raise pytest.UsageError(f"{VARIABLE}={choice} means nothing: {DOCKER} or {EMBEDDED}")
    if choice == EMBEDDED:
        return EMBEDDED, f"{VARIABLE} says so"
    refusal = daemon_refusal()
    if choice == DOCKER and refusal:
        raise pytest.UsageError(f"{VARIABLE}={DOCKER}, but {refusal}")
    return (EMBEDDED, refusal) if refusal else (DOCKER, "a Docker daemon answers")


def servers_are_docker() -> bool:
    """Whether the shared servers are containers."""
    return chosen_servers()[0] == DOCKER


def daemon_refusal() -> str:
    """Why no Docker daemon can be used; nothing when one answers and has the images, or can get them."""
    if "DOCKER_HOST" not in os.environ and not SOCKET.exists():
        return "there is no Docker daemon"
    from docker.client import DockerClient
    from docker.errors import DockerException, ImageNotFound

    try:
        with contextlib.closing(DockerClient.from_env(timeout=PULL_S)) as client:
            client.ping()
            for image in (POSTGRES_IMAGE, KAFKA_IMAGE):
                try:
                    client.images.get(image)
                except ImageNotFound:
                    client.images.pull(*image.split(":"))
    except (DockerException, OSError) as error:
        return f"no Docker daemon answers, or it cannot get an image: {str(error)[:200]}"
    return ""
