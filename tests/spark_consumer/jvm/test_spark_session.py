"""Spark's properties reach its JVM as they are, whatever signs they hold; it is Java that reads them here."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.examples import examples
from walbridge.spark_consumer.jvm.spark_session import properties_text

SIGNS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.text("\\ =:#!\t\r\n\f\"'", max_size=10)


@given(st.dictionaries(SIGNS.filter(bool), SIGNS, max_size=5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(50))
def test_every_property_survives_the_file(spark: SparkSession, tmp_path: Path, conf: dict[str, str]) -> None:
    path = tmp_path / "spark.properties"
    path.write_text(properties_text(conf))
    jvm = spark._jvm
    assert jvm is not None
    read = jvm.java.util.Properties()
    with_utf8 = jvm.java.io.InputStreamReader(jvm.java.io.FileInputStream(str(path)), "UTF-8")
    read.load(with_utf8)
    with_utf8.close()

    assert dict(read) == conf
