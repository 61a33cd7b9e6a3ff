"""A Java trust store from the host's certificate authorities.

In: SSL_CERT_FILE, or for a Java from a wheel the host's own bundle: PEM, as OpenSSL reads it. Out: a
JKS file and the JVM options that name it. Java knows neither the variable nor the format, and a Java
from a wheel does not know authorities that were added to the host, which one of the host does. keytool
takes one certificate a start, which is a minute for a usual bundle; the format of a JKS file without
private keys is twenty lines.

Source: sun.security.provider.JavaKeyStore.engineStore (trusted certificate entries).
"""

from __future__ import annotations

import hashlib
import os
import ssl
import struct
from collections.abc import Iterable
from pathlib import Path

from walbridge.embedded.folders import folder
from walbridge.schemas.errors import OperatorError

PASSWORD = "changeit"  # Java's own default; such a store holds nothing secret
MAGIC, VERSION, TRUSTED_CERTIFICATE = 0xFEEDFEED, 2, 2
END = "-----END CERTIFICATE-----"
BEGIN = "-----BEGIN CERTIFICATE-----"
BUNDLES = (
    Path("/etc/ssl/certs/ca-certificates.crt"),  # Debian
    Path("/etc/pki/tls/certs/ca-bundle.crt"),  # Fedora
    Path("/etc/ssl/ca-bundle.pem"),  # SUSE
    Path("/etc/ssl/cert.pem"),  # Alpine
)
"""Where hosts keep the authorities that they trust."""


def trust_store_args(*, knows_host: bool = True) -> tuple[str, ...]:
    """JVM options for SSL_CERT_FILE, or else for the host's bundle; none where there is neither.

    Args:
        knows_host: whether the Java has the host's authorities by itself, so that only SSL_CERT_FILE counts.

    Raises:
        OperatorError: the bundle cannot be read.
    """
    bundle = os.environ.get("SSL_CERT_FILE") or (None if knows_host else _bundle_of_host())
    if not bundle:
        return ()
    try:
        pem = Path(bundle).read_text(errors="replace")
    except OSError as error:
        raise OperatorError(f"SSL_CERT_FILE cannot be read: {error}", "mend or unset SSL_CERT_FILE") from None
    digest = hashlib.sha256(pem.encode()).hexdigest()[:16]
    store = folder("java") / f"trust-{digest}.jks"
    if not store.exists():
        draft = store.with_name(f"{store.name}.{os.getpid()}")
        draft.write_bytes(encode_jks(certificates(pem)))
        draft.replace(store)
    return (
        f"-Djavax.net.ssl.trustStore={store}",
        "-Djavax.net.ssl.trustStoreType=JKS",
        f"-Djavax.net.ssl.trustStorePassword={PASSWORD}",
    )


def _bundle_of_host() -> str | None:
    places = ssl.get_default_verify_paths().cafile, *BUNDLES
    return next((str(each) for each in places if each and os.access(each, os.R_OK)), None)


def certificates(pem: str) -> list[bytes]:
    """Each certificate of a bundle as DER; text between them is ignored."""
    blocks = pem.split(BEGIN)[1:]
    try:
        return [ssl.PEM_cert_to_DER_cert(BEGIN + block.split(END)[0] + END) for block in blocks if END in block]
    except ValueError:
        raise OperatorError(
            "SSL_CERT_FILE, or the bundle of this host, holds a damaged certificate",
            "mend it, or let SSL_CERT_FILE name another",
        ) from None


def encode_jks(ders: Iterable[bytes]) -> bytes:
    """A JKS file that trusts these certificates."""
    unique = list(dict.fromkeys(ders))
    body = struct.pack(">III", MAGIC, VERSION, len(unique))
    for number, der in enumerate(unique):
        body += struct.pack(">I", TRUSTED_CERTIFICATE) + _utf(f"authority{number}")
        body += struct.pack(">Q", 0) + _utf("X.509") + struct.pack(">I", len(der)) + der
    # The phrase is part of the format.
    return body + hashlib.sha1(PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("ascii")
