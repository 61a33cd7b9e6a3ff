"""Postgres, Kafka and a schema registry that let nobody in without TLS and a password, or a certificate.

In: a folder. Out: servers whose certificates one authority has signed, and what clients need to trust them. Kafka has
two listeners: SCRAM over TLS, and client certificates, whose common name is the principal. The Postgres of the wheel
has no TLS, so this is one of the versions.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.postgres_versions import MAJORS, PostgresOfVersion
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import SUPERUSER
from walbridge.embedded.server_process import free_port

ADMIN, PRODUCER, JOB = "admin", "producer", "job"
PEM = serialization.Encoding.PEM
RULES = f"host all {SUPERUSER} 127.0.0.1/32 trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n"
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{0}" password="{1}";'


class Authority:
    """Signs certificates of 127.0.0.1, which servers and clients show alike."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self.certificate = folder / "authority.pem"
        self.certificate.write_bytes(self._signed("authority", self._key.public_key(), is_authority=True))

    def issue(self, name: str) -> Path:
        """A PEM file with a key and its certificate."""
        key, file = ec.generate_private_key(ec.SECP256R1()), self._folder / f"{name}.pem"
        private = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        file.write_bytes(private + self._signed(name, key.public_key()))
        file.chmod(0o600)
        return file

    def _signed(self, name: str, key: ec.EllipticCurvePublicKey, *, is_authority: bool = False) -> bytes:
        now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(address, critical=False)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(PEM)


class SecuredPostgres(PostgresOfVersion):
    """Lets the superuser in from here, and all others with TLS and a password."""

    def __init__(self, certificate: Path) -> None:
        self._certificate = certificate
        super().__init__(MAJORS[-1], {"ssl": "on", "ssl_cert_file": "server.pem", "ssl_key_file": "server.pem"})

    def _init_data(self) -> None:
        super()._init_data()
        file = self.data / "server.pem"
        file.write_bytes(self._certificate.read_bytes())
        file.chmod(0o600)
        os.chown(file, self._run_as.uid, self._run_as.gid)
        (self.data / "pg_hba.conf").write_text(RULES)


class SecuredKafka(KafkaBroker):
    """Each user's password is its name."""

    def __init__(self, authority: Authority) -> None:
        protocols = "PLAINTEXT:SASL_SSL,MTLS:SSL,CONTROLLER:PLAINTEXT"
        super().__init__(
            {
                "listener.security.protocol.map": protocols,
                "inter.broker.listener.name": "PLAINTEXT",
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
                "listener.name.plaintext.scram-sha-512.sasl.jaas.config": SCRAM.format(ADMIN, ADMIN),
                "listener.name.mtls.ssl.client.auth": "required",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(authority.issue("broker")),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(authority.certificate),
                "ssl.principal.mapping.rules": "RULE:^CN=([^,]+)$/$1/",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": f"User:{ADMIN};User:ANONYMOUS",  # who speaks to the controller is anonymous
            },
            scram={user: user for user in (ADMIN, PRODUCER, JOB)},
        )
        self._mtls_port = 0

    @property
    def mtls_servers(self) -> str:
        """The listener that wants a client's certificate."""
        return f"127.0.0.1:{self._mtls_port}"

    def _broker_settings(self) -> dict[str, str]:
        settings = super()._broker_settings()
        self._mtls_port = self._mtls_port or free_port()
        more = f",MTLS://{self.mtls_servers}"
        return settings | {name: settings[name] + more for name in ("listeners", "advertised.listeners")}


def scram_of(user: str, authority: Path) -> dict[str, str]:
    """Properties of librdkafka, but for the password."""
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": user}
    return {**login, "ssl.ca.location": str(authority)}


def java_scram(authority: Path) -> dict[str, str]:
    """Properties of a Java client, but for its login."""
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority)}
    return {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", **trusted}


def mtls_of(certificate: Path, authority: Path) -> dict[str, str]:
    """Properties of librdkafka."""
    shown = {"ssl.certificate.location": str(certificate), "ssl.key.location": str(certificate)}
    return {"security.protocol": "SSL", "ssl.ca.location": str(authority), **shown}


def java_mtls(certificate: Path, authority: Path) -> dict[str, str]:
    """Properties of a Java client."""
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority)}
    return {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificate),
        **trusted,
    }
