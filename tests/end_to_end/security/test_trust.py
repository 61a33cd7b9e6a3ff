"""One party is not trusted, or not let in: each start ends with exit code 2 and names the setting that mends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.security.locked import Locked, refused
from tests.secured_servers import Authority

pytestmark = pytest.mark.servers


def test_who_is_not_trusted_or_not_let_in_is_named_with_the_setting_that_mends_it(
    locked: Locked, tmp_path: Path
) -> None:
    locked.grant(*locked.printed_rights().values())
    locked.run("init", "--admin-dsn", "user=postgres")
    stranger = Authority(tmp_path).certificate
    settings = locked.producer.settings
    wrong = tmp_path / "wrong"
    wrong.write_text("hunter2")

    def told(section: str, name: str, value: object, words: str) -> str:
        right = settings[section][name]
        settings[section][name] = value
        try:
            return refused(locked, words)
        finally:
            settings[section][name] = right

    trusted = str(locked.authority.certificate)
    dsn = settings["postgres"]["dsn"].replace(trusted, str(stranger))
    assert "sslrootcert is the certificate of who signed" in told("postgres", "dsn", dsn, "do not trust each other")
    assert "check user and password" in told("postgres", "password_file", str(wrong), "(28P01)")
    client = settings["kafka"]["client"] | {"ssl.ca.location": str(stranger)}
    assert "correct [kafka.client]" in told("kafka", "client", client, "does not let walbridge in")
    files = {"sasl.password": str(wrong)}
    assert "correct [kafka.client]" in told("kafka", "client_files", files, "uthentication failed")
    mend = told("topics", "registry_ca_file", str(stranger), "is not to be trusted")
    assert "name the certificate of its authority in [topics] registry_ca_file" in mend
    locked.start_streaming()
