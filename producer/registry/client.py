"""A schema registry with Confluent's API: a schema and its subject in, the registry's id out.

Three requests are all that a producer needs, so they are made here: ``confluent_kafka.schema_registry`` would bring an
HTTP client of its own, caches and a library of cryptography into every installation. One connection is kept. A
registry that does not answer is waited for (``RegistryAway``); what it refuses is the operator's, in words.
Source: Confluent documentation, "Schema Registry API Reference".
"""

import base64
import http.client
import json
import ssl
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlsplit

from walbridge.producer.registry import refusals
from walbridge.schemas.errors import OperatorError, RegistryAway
from walbridge.schemas.settings import Settings

ANSWER_S = 10.0
"""How long one answer may take. Postgres is not heard meanwhile, and ends a session after a minute by default."""
ANSWER_BYTES_MAX = 1 << 20
_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_NOT_FOUND = (40401, 40403)
"""Subject, schema: both mean that it was never registered there. Any other 404 is no answer of a registry."""
_AWAY = frozenset({408, 429, 500, 502, 503, 504})


class Registry:
    """A connection to the registry, opened at the first request.

    Raises:
        OperatorError: no registry is set, or its files cannot be read.
    """

    def __init__(self, settings: Settings) -> None:
        topics = settings.topics
        if topics.registry_url is None:
            raise refusals.registry_not_set(settings.name)
        self.url = topics.registry_url.rstrip("/")
        address = urlsplit(self.url)
        self._host, self._port, self._path = address.hostname or "", address.port, address.path
        self._tls = _tls(settings) if address.scheme == "https" else None
        self._headers = {"Content-Type": _CONTENT_TYPE, "Accept": f"{_CONTENT_TYPE}, application/json"}
        if topics.registry_user is not None:
            password = topics.registry_password.get_secret_value() if topics.registry_password else ""
            credentials = base64.b64encode(f"{topics.registry_user}:{password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {credentials}"
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        """Let go of the connection; the next request opens one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def reach(self) -> None:
        """Ask for something that every registry knows.

        Raises:
            RegistryAway, OperatorError: as ``register``.
        """
        status, _ = self._ask("GET", "/schemas/types")
        if status != http.client.OK:
            raise refusals.no_registry(self.url, status)

    def register(self, subject: str, schema: str) -> int | None:
        """The id of this schema, which is registered under the subject if it is not yet; None where the rule of the
        subject forbids that.

        Raises:
            RegistryAway: no answer; asking again does no harm.
            OperatorError: it refuses, or is no registry.
        """
        status, answer = self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": schema})
        if status == http.client.CONFLICT:
            return None
        return self._id_in(status, answer, subject)

    def known_id(self, subject: str, schema: str) -> int | None:
        """The id under which this schema is registered for the subject; None where it is not.

        Raises:
            RegistryAway, OperatorError: as ``register``.
        """
        status, answer = self._ask("POST", f"/subjects/{quote(subject, safe='')}", {"schema": schema})
        if status == http.client.NOT_FOUND and answer.get("error_code") in _NOT_FOUND:
            return None
        return self._id_in(status, answer, subject)

    def _id_in(self, status: int, answer: dict[str, Any], subject: str) -> int:
        found = answer.get("id")
        if status == http.client.OK and isinstance(found, int) and 0 <= found < 2**31:
            return found
        raise refusals.registry_refuses(self.url, subject, status, answer.get("error_code"))

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """The status and the JSON object of an answer; an empty one where there is none."""
        try:
            status, data = self._answer(method, path, None if body is None else json.dumps(body).encode())
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise refusals.registry_not_trusted(self.url, error.verify_message) from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise RegistryAway(f"schema registry {self.url} does not answer: {reason}") from None
        if status in _AWAY:
            raise RegistryAway(f"schema registry {self.url} answers {status}")
        if status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
            raise refusals.registry_denies(self.url, status)
        if http.client.MULTIPLE_CHOICES <= status < http.client.BAD_REQUEST:
            raise refusals.no_registry(self.url, status)
        answer: Any = None
        with suppress(ValueError):
            answer = json.loads(data)
        if status == http.client.OK and answer is None:
            raise refusals.no_registry(self.url, status)
        return status, answer if isinstance(answer, dict) else {}

    def _answer(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        """Once more on a new connection, where the registry closed the kept one between two requests."""
        is_kept = self._connection is not None
        try:
            return self._exchange(method, path, body)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            self.close()
            if not is_kept:
                raise
            return self._exchange(method, path, body)

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = self._opened()
        self._connection.request(method, self._path + path, body, self._headers)
        with self._connection.getresponse() as response:
            data = response.read(ANSWER_BYTES_MAX)
            is_whole = response.isclosed()
        if not is_whole:
            self.close()  # what is left of it would be taken for the next answer
        return response.status, data

    def _opened(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=ANSWER_S)
        return http.client.HTTPSConnection(self._host, self._port, timeout=ANSWER_S, context=self._tls)


def _tls(settings: Settings) -> ssl.SSLContext:
    topics = settings.topics
    try:
        context = ssl.create_default_context(cafile=topics.registry_ca_file)
        if topics.registry_certificate_file is not None:
            context.load_cert_chain(topics.registry_certificate_file, topics.registry_key_file)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise OperatorError(
            f"the files for TLS to the schema registry cannot be used: {reason}",
            remedy="mend [topics] registry_ca_file, registry_certificate_file and registry_key_file: each names a "
            "readable PEM file, and the key has no passphrase",
        ) from None
    return context
