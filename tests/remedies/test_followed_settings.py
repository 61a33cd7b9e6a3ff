"""Remedies of settings, files and names, done to the letter: what was refused is taken then.

The settings file, the variable or the name is changed as the remedy says and in no other way.
"""

from __future__ import annotations

import json
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from walbridge.producer.kafka.client_config import client_config, refusing_properties
from walbridge.producer.pgoutput.options import StreamWishes, start_options
from walbridge.runtime.heap import spark_share
from walbridge.runtime.monitoring.health import Health
from walbridge.runtime.monitoring.http_endpoint import HttpEndpoint
from walbridge.runtime.monitoring.registry import new_registry
from walbridge.schemas.dsn import refuse_unclear_dsn
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.properties import server_address
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_file import dsn_of, load_settings
from walbridge.schemas.table_names import split_name
from walbridge.schemas.topics import data_topic, refuse_topic_collisions


@dataclass
class Place:
    """A folder with a settings file."""

    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "walbridge.toml"

    def write(self, text: str) -> None:
        self.file.write_text(text)

    def refused(self, remedy: str) -> None:
        with pytest.raises(OperatorError) as refusal:
            self.load()
        assert remedy in refusal.value.remedy

    def load(self) -> Settings:
        return load_settings(self.file)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_settings_file_that_is_not_there_is_named_with_config(place: Place) -> None:
    with pytest.raises(OperatorError, match="cannot be read") as refusal:
        load_settings(place.folder / "elsewhere.toml")
    assert refusal.value.remedy == "name one with --config"
    place.write('name = "shop"')

    assert load_settings(place.file).name == "shop"


def test_line_that_is_no_toml_is_mended(place: Place) -> None:
    place.write('name = "shop"\nslot = ')
    place.refused("mend that line")
    place.write('name = "shop"\n')

    assert place.load().name == "shop"


def test_setting_that_is_refused_is_mended_in_the_file(place: Place) -> None:
    place.write("[producer]\nbatch_rows_max = 0\n")
    place.refused("mend the file or the variable; see docs/settings.md")
    place.write("[producer]\nbatch_rows_max = 1\n")

    assert place.load().producer.batch_rows_max == 1


def test_variable_that_is_not_known_is_unset(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write("")
    monkeypatch.setenv("WALBRIDGE_POSTGRES__SLOTS", "x")
    place.refused("unset it; known: ")
    monkeypatch.delenv("WALBRIDGE_POSTGRES__SLOTS")

    place.load()


def test_variable_of_a_list_is_written_as_json(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write("")
    monkeypatch.setenv("WALBRIDGE_POSTGRES__PUBLICATION_TABLES", "orders,lines")
    place.refused("write its list or table as JSON, or unset it")
    monkeypatch.setenv("WALBRIDGE_POSTGRES__PUBLICATION_TABLES", '["orders", "lines"]')

    assert place.load().postgres.publication_tables == ("orders", "lines")


def test_database_is_named_as_the_remedy_writes_it(place: Place) -> None:
    place.write("")
    with pytest.raises(OperatorError, match="no database is named") as refusal:
        dsn_of(place.load())
    (line,) = re.findall(r'dsn = "host=\.\.\. dbname=\.\.\."', refusal.value.remedy)
    place.write("[postgres]\n" + line.replace("host=...", "host=h").replace("dbname=...", "dbname=d"))

    assert dsn_of(place.load()) == "host=h dbname=d"


@pytest.mark.parametrize("dsn", ["host=h dbname=d password='two words'", "postgresql://u:p%40x@h/d"])
def test_password_with_blanks_or_signs_is_quoted_or_encoded(dsn: str) -> None:
    with pytest.raises(OperatorError) as refusal:
        refuse_unclear_dsn("host=h dbname=d password=two words")
    assert "in quotes what has blanks, in a URI percent-encoded what has @, : or /" in refusal.value.remedy

    refuse_unclear_dsn(dsn)


def test_secret_is_written_into_its_file(place: Place) -> None:
    secret = place.folder / "password"
    place.write(f'[postgres]\ndsn = "host=h dbname=d"\npassword_file = "{secret}"\n')
    place.refused("write the secret into that file, and let this user read it")
    secret.write_text("hunter2\n")

    assert dsn_of(place.load()) == "host=h dbname=d password='hunter2'"


LONG = "t" * 250


@pytest.mark.parametrize(("given", "said"), [(LONG, "shorten"), ("no topic", "mend")])
def test_table_whose_topic_has_no_name_is_given_one(given: str, said: str) -> None:
    with pytest.raises(OperatorError) as refusal:
        data_topic("shop", "public", "orders", {"public.orders": given})
    entry = re.fullmatch(rf'{said} \[topics\.names\] "(.+?)"', refusal.value.remedy)
    assert entry is not None

    assert data_topic("shop", "public", "orders", {entry[1]: "shop.long"}) == "shop.long"


def test_two_tables_of_one_topic_are_told_apart_by_an_entry() -> None:
    names = {"public.a.b": "shop.public.a_b"}
    topics = [data_topic("shop", "public", "a_b", names), data_topic("shop", "public", "a.b", names)]
    with pytest.raises(OperatorError, match="two tables have the topic") as refusal:
        refuse_topic_collisions(topics)
    assert refusal.value.remedy == "rename one of them with an entry in [topics.names]"

    refuse_topic_collisions([topics[0], data_topic("shop", "public", "a.b", {"public.a.b": "shop.dotted"})])


def test_name_of_a_table_is_quoted_as_the_remedy_shows() -> None:
    with pytest.raises(OperatorError) as refusal:
        split_name('"my.schema.my table')
    (example,) = re.findall(r'"my\.schema"\."my table"$', refusal.value.remedy)

    assert split_name(example) == ("my.schema", "my table")


def test_share_of_memory_is_written_as_the_remedy_writes_it() -> None:
    with pytest.raises(OperatorError) as refusal:
        spark_share("forty")
    (text,) = re.findall(r'write it as "(.+)"', refusal.value.remedy)

    assert spark_share(text) == 0.4


def test_port_that_is_taken_is_set_to_0() -> None:
    registry = new_registry()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OperatorError) as refusal:
            HttpEndpoint("127.0.0.1", port, registry, lambda: Health("running", 0), "job_port")
        assert "set [metrics] job_port to a free port, or to 0 for any" in refusal.value.remedy
        with HttpEndpoint("127.0.0.1", 0, registry, lambda: Health("running", 0), "job_port") as http:
            assert http.port != port


def test_options_that_a_server_lacks_are_set_as_the_remedies_say() -> None:
    wishes: dict[str, Any] = {"binary": True, "streaming": "parallel", "two_phase": True, "origin": "none"}
    followed = []
    while True:
        try:
            start_options(["p"], 130000, StreamWishes(**wishes))
            break
        except OperatorError as refusal:
            (told,) = re.findall(r"^set (\w+) = (\S+) in \[postgres\], or upgrade the server$", refusal.remedy)
            wishes[told[0]] = json.loads(told[1])
            followed.append(told[0])

    assert sorted(followed) == ["binary", "origin", "streaming", "two_phase"]
    start_options(["p"], 160000, StreamWishes(binary=True, streaming="parallel"))


def test_property_that_is_walbridges_is_left_out_and_one_that_is_wrong_mended() -> None:
    with pytest.raises(OperatorError) as reserved:
        client_config(Settings.model_validate({"kafka": {"client": {"transactional.id": "x"}}}))
    assert reserved.value.remedy.startswith("leave it out of [kafka.client]")
    for name, setting in (
        ("bootstrap.servers", "[kafka] bootstrap_servers"),
        ("message.max.bytes", "[producer] row_bytes_max"),
    ):
        with pytest.raises(OperatorError) as elsewhere:
            client_config(Settings.model_validate({"kafka": {"client": {name: "2000"}}}))
        assert elsewhere.value.remedy == f"leave it out of [kafka.client], and set {setting}"
    config = client_config(Settings.model_validate({"kafka": {"client": {}, "bootstrap_servers": "other:9092"}}))
    assert config["bootstrap.servers"] == "other:9092"
    settings = Settings.model_validate({"kafka": {"client": {"security.protocol": "x"}}})
    with pytest.raises(OperatorError, match="is not accepted") as wrong, refusing_properties(settings):
        _client(settings)
    assert wrong.value.remedy == "mend that property in walbridge.toml"
    mended = Settings.model_validate({"kafka": {"client": {"security.protocol": "plaintext"}}})
    with refusing_properties(mended):
        _client(mended)


def _client(settings: Settings) -> None:
    Producer(client_config(settings))


def test_server_without_a_port_is_written_with_one() -> None:
    with pytest.raises(OperatorError) as refusal:
        server_address("broker")
    assert refusal.value.remedy == 'write it as "host:port,host:port"'

    assert server_address("broker:9092") == ("broker", 9092)
