"""How tests run Spark's JVM."""

SHORT_LIVED = "-XX:TieredStopAtLevel=1"
"""One that ends after a minute never earns back what its second compiler costs: a quarter of its time."""
SPARK_CONF = "WALBRIDGE_SPARK__CONF"
"""Variable that says so to programs under test; benchmarks and soak run without it."""
