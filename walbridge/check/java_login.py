"""How the Spark job logs in to Kafka, said to librdkafka: so that ``check`` can ask as the job does, without a JVM.

In: properties of Java's client. Out: the same login in librdkafka's properties, or what stands against it.
"""

import re
from collections.abc import Mapping

_LOGIN = re.compile(r"\.(?:Plain|Scram)LoginModule\s+required\b(?P<options>.*)", re.DOTALL)
_OPTION = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')
_ALIKE = ("security.protocol", "sasl.mechanism", "ssl.key.password")
_PEM = {
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.truststore.certificates": ("ssl.ca.pem",),
    "ssl.keystore.location": ("ssl.certificate.location", "ssl.key.location"),
    "ssl.keystore.certificate.chain": ("ssl.certificate.pem",),
    "ssl.keystore.key": ("ssl.key.pem",),
}
_TYPES = {"ssl.truststore.type", "ssl.keystore.type"}
_ENDPOINT = "ssl.endpoint.identification.algorithm"
_JAAS = "sasl.jaas.config"


class OtherLogin(Exception):
    """What librdkafka cannot be told; its text names properties, and no value."""


def login_of(java: Mapping[str, str]) -> dict[str, str]:
    """Properties of librdkafka; those that have nothing to do with a login are left out.

    Raises:
        OtherLogin: the job logs in in a way of Java's own.
    """
    made: dict[str, str] = {}
    for name, value in java.items():
        if not name.startswith(("security.", "sasl.", "ssl.")) or name in _TYPES:
            continue
        if name in _ALIKE:
            made[name] = value
        elif name in _PEM and java.get(f"{name.rpartition('store.')[0]}store.type", "JKS").upper() == "PEM":
            made |= dict.fromkeys(_PEM[name], value)
        elif name == _ENDPOINT:
            made[name] = value or "none"
        elif name == _JAAS:
            made |= _user(value)
        else:
            raise OtherLogin(name)
    return made


def _user(jaas: str) -> dict[str, str]:
    found = _LOGIN.search(jaas)
    if found is None:
        raise OtherLogin(_JAAS)
    options = {
        name: re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
        for name, quoted, plain in _OPTION.findall(found["options"])
    }
    if not {"username", "password"} <= options.keys():
        raise OtherLogin(_JAAS)
    return {"sasl.username": options["username"], "sasl.password": options["password"]}
