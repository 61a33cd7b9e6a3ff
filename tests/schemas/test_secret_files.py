"""Secrets in files: read to the last character, refused by their setting when they cannot be (I10)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings, effective
from walbridge.schemas.settings_file import load_settings

SECRET = "hunter2 'ä\\ "
DSN = "host=h dbname=d user=u"
SETTINGS = {
    "postgres": '[postgres]\ndsn = "{dsn}"\npassword_file = "{file}"',
    "client": '[kafka.client_files]\nsasl.password = "{file}"',
    "spark": '[kafka.spark_files]\n"sasl.jaas.config" = "{file}"',
}
NAMES = {"postgres": "[postgres] password_file", "client": "[kafka] client_files", "spark": "[kafka] spark_files"}


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in os.environ:
        if variable.startswith("WALBRIDGE_"):
            monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)


def load(whose: str, read: str | None = None, dsn: str = DSN) -> Settings:
    Path("walbridge.toml").write_text(SETTINGS[whose].format(file="secret", dsn=dsn))
    return load_settings("walbridge.toml", secrets=(read or whose,))


def secret_of(whose: str, settings: Settings) -> str:
    if whose == "postgres":
        return str(conninfo_to_dict(settings.postgres.dsn.get_secret_value())["password"])
    properties = settings.kafka.client if whose == "client" else settings.kafka.spark
    (value,) = properties.values()
    return value.get_secret_value()


@pytest.mark.parametrize("whose", SETTINGS)
@pytest.mark.parametrize("line_end", ["", "\n", "\r\n"])
def test_secret_is_all_but_the_line_end_that_editors_add(whose: str, line_end: str) -> None:
    Path("secret").write_bytes((SECRET + line_end).encode())

    assert secret_of(whose, load(whose)) == SECRET


def test_file_whose_name_is_none_is_refused() -> None:
    Path("walbridge.toml").write_text(f'[postgres]\ndsn = "{DSN}"\npassword_file = "a\\u0000b"')

    with pytest.raises(OperatorError, match="cannot be read: it is no path"):
        load_settings("walbridge.toml")


@pytest.mark.parametrize("whose", SETTINGS)
def test_missing_file_is_refused_by_the_name_of_its_setting(whose: str) -> None:
    with pytest.raises(OperatorError) as refused:
        load(whose)

    assert refused.value.what == f"{NAMES[whose]}: secret cannot be read: No such file or directory"
    assert "write the secret into that file" in refused.value.remedy
    assert ("walbridge init --admin-dsn makes it" in refused.value.remedy) is (whose == "postgres")


@pytest.mark.parametrize("whose", SETTINGS)
def test_file_that_is_not_utf8_is_refused_without_its_bytes(whose: str) -> None:
    Path("secret").write_bytes(b"hunter2\xff")

    with pytest.raises(OperatorError) as refused:
        load(whose)

    assert "it is not UTF-8" in refused.value.what
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("whose", SETTINGS)
def test_file_of_another_program_is_not_read(whose: str) -> None:
    """A machine has the secrets of what runs on it."""
    load(whose, read="none")


@pytest.mark.parametrize("whose", SETTINGS)
def test_secret_from_a_file_prints_nowhere(whose: str) -> None:
    Path("secret").write_text("hunter2")
    settings = load(whose)

    assert secret_of(whose, settings) == "hunter2"
    assert "hunter2" not in f"{settings!r} {effective(settings)}"


def test_password_file_wins_over_a_password_in_the_dsn() -> None:
    Path("secret").write_text("new")

    assert secret_of("postgres", load("postgres", dsn=f"{DSN} password=old")) == "new"
    assert secret_of("postgres", load("postgres", dsn="postgresql://u:old@h/d")) == "new"
