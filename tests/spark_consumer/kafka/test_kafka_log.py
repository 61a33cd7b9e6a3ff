"""What Kafka's Java client does not take is told by name; its own words may quote a secret (I10)."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from schemas.errors import OperatorError
from schemas.settings import Settings
from spark_consumer.kafka.kafka_log import KafkaLog

SECRET = "hunter2-canary"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required username=u password="
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
MISTAKES = {
    "no such protocol": ({"security.protocol": SECRET}, "security.protocol"),
    "no number": ({"max.poll.records": SECRET}, "max.poll.records"),
    "password of two words without quotes": (
        SASL | {"sasl.jaas.config": f"{LOGIN}two {SECRET};"},
        "IllegalArgumentException",
    ),
    "no login module": (SASL | {"sasl.jaas.config": f"{SECRET} required;"}, "LoginException"),
    "no key": (
        {"security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.keystore.key": SECRET},
        "InvalidConfigurationException",
    ),
    "no such file": ({"security.protocol": "SSL", "ssl.truststore.location": "/no/where"}, "ssl.truststore.location"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistaken_property_is_told_without_its_value(spark: SparkSession, mistake: str) -> None:
    properties, named = MISTAKES[mistake]
    log = KafkaLog(spark, Settings(kafka={"spark": properties}))  # type: ignore[arg-type]

    with pytest.raises(OperatorError) as refused:
        log.partition_count("t")

    assert "[kafka.spark] is not accepted" in refused.value.what
    assert named in refused.value.what
    assert SECRET not in str(refused.value)
