"""The registry's client: an id, or whom to call. What it sent is in no refusal (I10)."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.producer.registry.answering import Answer, FirstRegistered, answering
from tests.producer.registry.certificate import write_certificate
from walbridge.producer.registry.client import Registry
from walbridge.schemas.errors import OperatorError, RegistryAway
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Topics

SCHEMA = '{"type": "string", "name": "hunter2"}'


def registry(url: str, **more: object) -> Registry:
    return Registry(Settings(topics=Topics(registry_url=url, **more)))  # type: ignore[arg-type]


def asked_once(answer: Answer) -> OperatorError:
    with answering(lambda _: answer) as url, pytest.raises(OperatorError) as refused:
        registry(url).register("p.public.orders-value", SCHEMA)
    return refused.value


def test_schema_of_one_subject_keeps_its_id() -> None:
    with answering(FirstRegistered(7)) as url:
        client = registry(url)

        assert [client.register("t-value", SCHEMA), client.register("t-value", SCHEMA)] == [7, 7]


def test_subject_with_any_character_is_one_part_of_the_path() -> None:
    told = FirstRegistered()
    with answering(told) as url:
        registry(f"{url}/apis/ccompat/v7/").register("a/b c-value", SCHEMA)

    assert told.asked[0][1] == "/apis/ccompat/v7/subjects/a%2Fb%20c-value/versions"


def test_schema_that_was_never_registered_has_no_id() -> None:
    with answering(FirstRegistered()) as url:
        assert registry(url).known_id("t-value", SCHEMA) is None


def test_credentials_are_sent_and_never_shown(tmp_path: Path) -> None:
    seen = []
    with answering(lambda asked: (200, {"id": 1})) as url:
        client = registry(url, registry_user="ann", registry_password="hunter2")
        client.register("t-value", "{}")
        seen.append(client._headers["Authorization"])

    assert seen == ["Basic " + base64.b64encode(b"ann:hunter2").decode()]


@pytest.mark.parametrize(
    ("answer", "what", "remedy"),
    [
        ((401, {}), "does not let us in", "registry_user"),
        ((403, {}), "does not let us in", "registry_user"),
        ((422, {"error_code": 42201, "message": SCHEMA}), r"answers 422 \(error code 42201\)", "ccompat"),
        ((404, {"message": SCHEMA}), "answers 404", "ccompat"),
        ((301, {}), "is no schema registry", "registry_url"),
        ((200, b"<html>"), "is no schema registry", "registry_url"),
        ((200, {"id": "7"}), "answers 200", "ccompat"),
        ((200, {"id": -1}), "answers 200", "ccompat"),
        ((200, [1]), "answers 200", "ccompat"),
    ],
)
def test_refusal_is_told_with_what_mends_it(answer: Answer, what: str, remedy: str) -> None:
    refused = asked_once(answer)

    assert remedy in refused.remedy
    with pytest.raises(OperatorError, match=what):
        raise refused
    assert "hunter2" not in str(refused)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_registry_that_is_busy_is_waited_for(status: int) -> None:
    with answering(lambda _: (status, {})) as url, pytest.raises(RegistryAway, match=f"answers {status}"):
        registry(url).register("t-value", SCHEMA)


def test_registry_that_is_gone_is_waited_for_and_asked_again() -> None:
    told = FirstRegistered()
    with answering(told) as url:
        client = registry(url)
        client.reach()
    with pytest.raises(RegistryAway, match="does not answer"):
        client.register("t-value", SCHEMA)


def test_what_is_there_but_no_registry_is_refused_before_a_copy() -> None:
    with answering(lambda _: (404, {})) as url, pytest.raises(OperatorError, match="is no schema registry"):
        registry(url).reach()


def test_pipeline_without_an_address_is_refused() -> None:
    with pytest.raises(OperatorError, match="no schema registry is set"):
        Registry(Settings())


def test_files_of_tls_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="No such file"):
        registry("https://127.0.0.1:1", registry_ca_file=str(tmp_path / "none.pem"))


def test_registry_with_tls_is_spoken_to_by_those_whom_both_sides_trust(tmp_path: Path) -> None:
    pem = str(write_certificate(tmp_path))
    with answering(FirstRegistered(7), Path(pem)) as url:
        client = registry(url, registry_ca_file=pem, registry_certificate_file=pem)

        assert client.register("t-value", SCHEMA) == 7
        client.close()


def test_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    pem = write_certificate(tmp_path)
    with answering(FirstRegistered(), pem) as url, pytest.raises(OperatorError, match="not to be trusted"):
        registry(url).register("t-value", SCHEMA)


def test_schema_that_the_subjects_rule_forbids_has_no_id() -> None:
    with answering(lambda _: (409, {"error_code": 409, "message": SCHEMA})) as url:
        assert registry(url).register("t-value", SCHEMA) is None
