"""How tests run Spark's JVM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyspark

from walbridge.embedded.class_archive import ClassArchive
from walbridge.embedded.folders import place_of
from walbridge.embedded.java import find_java
from walbridge.schemas.errors import OperatorError

FIRST_COMPILER_ONLY = "-XX:TieredStopAtLevel=1"
"""A JVM that ends after a minute never earns back what its second compiler costs: a quarter of its time."""
AT_REST = {"spark.sql.streaming.pollingDelay": "40ms"}
"""A job that waits for the next cut asks Kafka so often. Where a lake is published at once, as in tests, it would do so
every 10 ms."""
LIVES_FOR_ALL = ("-XX:ReservedCodeCacheSize=192m",)
"""For the JVM that tests share. With the first compiler alone the JVM has room for 48 MB of code: when these are full
(with Spark after some hundred tests) it searches them for what it can do without, compiles that anew, and so on."""
JARS = Path(pyspark.__file__).parent / "jars"
SPARK_CONF = "WALBRIDGE_SPARK__CONF"
"""Variable that says so to programs under test; benchmarks and soak run without it."""


def short_lived() -> tuple[str, ...]:
    """Options for a JVM that ends after a minute."""
    try:
        return (FIRST_COMPILER_ONLY, *spark_archive().options())
    except OperatorError:  # no Java: nor do tests run that start one
        return (FIRST_COMPILER_ONLY,)


def variables() -> dict[str, str]:
    """For programs that start such JVMs and do not ask for options: a launcher, a cluster, the demo."""
    return {"JAVA_TOOL_OPTIONS": " ".join(short_lived())}


def archived_class_path() -> dict[str, str]:
    """Properties of Spark with which a JVM takes its archive.

    Spark's launcher names slf4j's jar, and then the folder that has it too. A JVM 21 wants a class path to begin with
    that of the archive, in which each jar is named once; 17 does not mind.
    """
    try:
        minds = find_java().major > 17
    except OperatorError:
        return {}
    return {"spark.driver.extraClassPath": f"{JARS}/*"} if minds else {}


def spark_archive() -> ClassArchive:
    """What ``tests/class_archives.py`` makes.

    Raises:
        OperatorError: no Java is here.
    """
    jars = [*JARS.glob("*.jar"), *place_of("jars").glob("spark/*.jar")]
    return ClassArchive("spark-driver", find_java(), tuple(jars))


def spark_conf(scratch: Path, *options: str, conf: Mapping[str, str] | None = None) -> str:
    """For the variable. What a killed JVM leaves behind stays in ``scratch``: Spark's folders are there too."""
    java = {"spark.driver.extraJavaOptions": " ".join((*options, f"-Djava.io.tmpdir={scratch}"))}
    return json.dumps(java | dict(conf or {}))
