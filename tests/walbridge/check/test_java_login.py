"""The job's login as librdkafka is told it, so that check may ask as the job does."""

from __future__ import annotations

import pytest

from walbridge.check.java_login import OtherLogin, login_of

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="shop" password="a\\"b; c=d";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required\n  password=p1 username=shop;"


@pytest.mark.parametrize(
    ("java", "login"),
    [
        ({}, {}),
        ({"fetch.max.bytes": "1", "client.dns.lookup": "use_all_dns_ips"}, {}),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN},
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "shop",
                "sasl.password": 'a"b; c=d',
            },
        ),
        ({"sasl.jaas.config": SCRAM}, {"sasl.username": "shop", "sasl.password": "p1"}),
        (
            {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": "/ca.pem",
                "ssl.keystore.type": "pem",
                "ssl.keystore.location": "/job.pem",
                "ssl.key.password": "p",
                "ssl.endpoint.identification.algorithm": "",
            },
            {
                "ssl.ca.location": "/ca.pem",
                "ssl.certificate.location": "/job.pem",
                "ssl.key.location": "/job.pem",
                "ssl.key.password": "p",
                "ssl.endpoint.identification.algorithm": "none",
            },
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": "C", "ssl.keystore.key": "K"},
            {"ssl.certificate.pem": "C", "ssl.key.pem": "K"},
        ),
    ],
)
def test_login_is_the_same_in_librdkafkas_words(java: dict[str, str], login: dict[str, str]) -> None:
    assert login_of(java) == login


@pytest.mark.parametrize(
    ("java", "named"),
    [
        ({"ssl.truststore.location": "/secret.jks"}, "ssl.truststore.location"),
        ({"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/secret"}, "ssl.keystore.location"),
        ({"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required secret;"}, "sasl.jaas.config"),
        ({"sasl.jaas.config": "org.apache.kafka.PlainLoginModule required user=secret;"}, "sasl.jaas.config"),
        ({"sasl.login.callback.handler.class": "com.example.Secret"}, "sasl.login.callback.handler.class"),
    ],
)
def test_login_of_javas_own_is_named_without_its_values(java: dict[str, str], named: str) -> None:
    """I10."""
    with pytest.raises(OtherLogin) as other:
        login_of(java)
    assert str(other.value) == named
