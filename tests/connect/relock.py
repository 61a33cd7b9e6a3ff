"""Rewrite ``tests/connect/jars.lock`` after a version changed: ``python -m tests.connect.relock``.

In: the roots below. Out: the run-time closure of each, a set for each folder of plugins, since Connect loads every
plugin with classes of its own. They are fetched by the test that needs them, and by no set-up.
"""

from __future__ import annotations

from tests.connect.worker import LOCK
from walbridge.embedded import ivy
from walbridge.embedded.jars_relock import HEADER, locked_set

ROOTS = {
    "connect": [
        "org.apache.kafka:connect-runtime:4.3.1",
        # Without a binding the worker logs nothing, even when it fails.
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
        "org.apache.logging.log4j:log4j-core:2.25.4",
    ],
    "connect-converter": ["io.apicurio:apicurio-registry-utils-converter:2.6.13.Final"],
    "connect-jdbc": ["io.debezium:debezium-connector-jdbc:3.5.0.Final"],
}
LEFT_OUT = {
    # The worker has it, with modules that fit no second one.
    "connect-jdbc": (
        "com.fasterxml.jackson.core",
        "com.microsoft.sqlserver",
        "com.mysql",
        "com.oracle.database.jdbc",
        "org.mariadb.jdbc",
    ),
}


def relock() -> None:
    lines = [HEADER.replace("walbridge.embedded.jars --relock", "tests.connect.relock")]
    for name, roots in ROOTS.items():
        lines += locked_set(name, [ivy.Coordinate.parse(root) for root in roots], LEFT_OUT.get(name, ()))
    LOCK.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    relock()
