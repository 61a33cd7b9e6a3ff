"""How tests run Spark's JVM."""

from __future__ import annotations

import json
from pathlib import Path

SHORT_LIVED = "-XX:TieredStopAtLevel=1"
"""One that ends after a minute never earns back what its second compiler costs: a quarter of its time."""
SPARK_CONF = "WALBRIDGE_SPARK__CONF"
"""Variable that says so to programs under test; benchmarks and soak run without it."""


def spark_conf(scratch: Path, *options: str) -> str:
    """For the variable. What a killed JVM leaves behind stays in ``scratch``: Spark's folders are there too."""
    return json.dumps({"spark.driver.extraJavaOptions": " ".join((*options, f"-Djava.io.tmpdir={scratch}"))})
