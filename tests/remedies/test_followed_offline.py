"""Remedies that need no server, done to the letter: what was refused is taken then.

An argument, a file, a setting or an answer is changed as the remedy says and in no other way.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.producer.guards.test_start import SERVER, SLOT
from tests.producer.registry.answering import Answer, FirstRegistered, answering
from tests.producer.registry.certificate import write_certificate
from tests.producer.streaming_progress import OPTIONS, SPLIT, STREAMING
from walbridge.consumer.client import reader
from walbridge.lake.table import LakeTable
from walbridge.producer.guards.start import refuse_bad_start, refuse_unfit_start
from walbridge.producer.pgoutput.options import OLDEST_SERVER, StreamWishes, start_options
from walbridge.producer.postgres.requirements import stream_options
from walbridge.producer.postgres.table_reads.key_order import KeyColumn, KeyOrder
from walbridge.producer.registry.client import Registry
from walbridge.role import administrator_sql
from walbridge.runtime.host import JAVA_SUPPORTED
from walbridge.schemas.control.table_progress import CURRENT
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.jvm.spark_session import connector_jars
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry
from walbridge.spark_consumer.plan.readable_tables import readable_tables
from walbridge.spark_consumer.preflight import refuse_unfit_java, refuse_unreadable_jars
from walbridge.tables.keys import _lines
from walbridge.tables.known import KnownTable, single_table, tables_named, unknown_table
from walbridge.tail import parse_position


def refusal(of: Callable[[], object]) -> OperatorError:
    """What it raises."""
    with pytest.raises(OperatorError) as refused:
        of()
    return refused.value


def settings(**sections: Mapping[str, Any]) -> Settings:
    return Settings.model_validate({"name": "shop", **sections})


def test_tables_and_database_of_the_printed_sql_are_named_in_the_settings() -> None:
    postgres: dict[str, Any] = {"dsn": "host=h"}
    no_database = refusal(lambda: administrator_sql(settings(postgres=postgres), None))
    assert no_database.remedy == "add dbname=... to it"
    postgres["dsn"] += " dbname=shop"
    no_tables = refusal(lambda: administrator_sql(settings(postgres=postgres), None))
    assert no_tables.remedy.startswith("name them there")
    postgres["publication_tables"] = ["public.t"]

    assert '"public"."t"' in administrator_sql(settings(postgres=postgres), None)


def test_streaming_and_messages_exclude_each_other_until_one_is_set_as_told() -> None:
    postgres: dict[str, Any] = {"streaming": "on", "messages": True}
    told = refusal(lambda: stream_options(settings(postgres=postgres), 180000))
    assert told.remedy == 'set streaming = "auto" in [postgres], or messages = false'

    stream_options(settings(postgres=postgres | {"streaming": "auto"}), 180000)
    stream_options(settings(postgres=postgres | {"messages": False}), 180000)


def test_slot_that_no_standby_of_this_version_keeps_is_not_asked_for() -> None:
    told = refusal(lambda: stream_options(settings(postgres={"failover": True}), 160015))
    assert told.what == "failover = true needs Postgres 17 or newer; the server is Postgres 16"
    assert told.remedy == "set failover = false in [postgres], or upgrade the server"

    stream_options(settings(postgres={"failover": False}), 160015)
    stream_options(settings(postgres={"failover": True}), 170000)


def test_server_that_is_too_old_is_upgraded() -> None:
    assert refusal(lambda: start_options(["p"], OLDEST_SERVER - 1, StreamWishes())).remedy == "upgrade the server"

    start_options(["p"], OLDEST_SERVER, StreamWishes())


def test_option_that_changed_inside_a_half_published_transaction_is_changed_back() -> None:
    progress = replace(STREAMING, split=SPLIT)
    told = refusal(lambda: refuse_unfit_start(progress, SERVER, SLOT, OPTIONS | {"binary": "true"}))
    assert told.remedy == "change it back until that transaction is through"

    refuse_unfit_start(progress, SERVER, SLOT, OPTIONS)
    refuse_unfit_start(replace(progress, split=None), SERVER, SLOT, OPTIONS | {"binary": "true"})


def test_dsn_of_another_server_database_or_timeline_is_pointed_at_the_right_one() -> None:
    for wrong, words in (
        (replace(SERVER, system_id="7000000000000000002"), "point [postgres] dsn at the right server"),
        (replace(SERVER, database="shop2"), "mend [postgres] dsn"),
        (replace(SERVER, timeline=2), "point [postgres] dsn at the primary that was followed, or at its successor"),
    ):
        slot = replace(SLOT, database=wrong.database)
        told = refusal(lambda: refuse_bad_start(STREAMING, wrong, slot, OPTIONS))  # noqa: B023
        assert told.remedy.startswith(words)

    refuse_bad_start(STREAMING, SERVER, SLOT, OPTIONS)
    refuse_bad_start(STREAMING, replace(SERVER, timeline=2, switches={1: STREAMING.done}), SLOT, OPTIONS)


def test_two_phase_is_set_as_the_slot_has_it() -> None:
    slot = replace(SLOT, two_phase=True)
    assert refusal(lambda: refuse_bad_start(STREAMING, SERVER, slot, OPTIONS)).remedy.startswith("set two_phase = true")
    two_phase = OPTIONS | {"two_phase": "true"}
    told = refusal(lambda: refuse_bad_start(STREAMING, SERVER, SLOT, two_phase))
    assert told.remedy.startswith("set two_phase = false")

    refuse_bad_start(replace(STREAMING, options=two_phase), SERVER, slot, two_phase)
    refuse_bad_start(STREAMING, SERVER, SLOT, OPTIONS)


def test_position_is_given_as_tail_prints_it() -> None:
    (example,) = re.findall(r"--from (\S+)$", refusal(lambda: parse_position("yesterday")).remedy)

    assert parse_position(example).ordinal == 0


TWO = [
    KnownTable(number, f"{schema}.orders", None, None, True, True, f"{schema}.orders", ())
    for number, schema in enumerate(("public", "sales"))
]


def test_table_that_several_schemas_have_is_named_with_its_schema_and_an_unknown_one_by_a_name_that_is_known() -> None:
    assert (
        refusal(lambda: single_table("orders", tables_named("orders", TWO))).remedy
        == "name it with its schema, as schema.table"
    )
    (names,) = re.findall("^name one of its tables: (.+)$", unknown_table("order", TWO).remedy)

    assert [single_table(name, tables_named(name, TWO)).name for name in names.split(", ")] == names.split(", ")


def order(*names: str) -> KeyOrder:
    return KeyOrder(tuple(KeyColumn(name, "text", "text", None, False, "=", ">", "<", "text") for name in names))


def test_file_of_keys_is_named_encoded_and_written_as_told(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    assert refusal(lambda: list(_lines(file, order("a")))).remedy == "name a file of keys"
    file.write_bytes(b"\xff\n")
    assert refusal(lambda: list(_lines(file, order("a")))).remedy == "write it in UTF-8, as CSV"
    file.write_text("one\ntwo\n")
    assert [bound.values for bound in _lines(file, order("a"))] == [("one",), ("two",)]

    remedy = "write these columns in this order, as CSV: a value that holds a comma is put in double quotes"
    assert refusal(lambda: list(_lines(file, order("a", "b")))).remedy == remedy
    file.write_text('one,"two, three"\n')
    assert [bound.values for bound in _lines(file, order("a", "b"))] == [("one", "two, three")]
    file.write_text("two, three\n")
    assert refusal(lambda: list(_lines(file, order("a")))).remedy == remedy
    file.write_text('"two, three"\n')
    assert [bound.values for bound in _lines(file, order("a"))] == [("two, three",)]


def test_java_that_is_missing_or_too_old_is_installed(tmp_path: Path) -> None:
    home = tmp_path / "java"
    there = {"JAVA_HOME": str(home)}
    assert "JAVA_HOME" in refusal(lambda: refuse_unfit_java(there)).remedy
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text('JAVA_VERSION="8.0"\n')
    told = refusal(lambda: refuse_unfit_java(there))
    versions = [int(number) for number in re.findall(r"\b(\d\d)\b", told.remedy)]
    assert versions == sorted(JAVA_SUPPORTED)

    for version in versions:
        (home / "release").write_text(f'JAVA_VERSION="{version}.0.1"\n')
        refuse_unfit_java(there)


def test_jars_are_found_in_the_folder_that_is_set_and_read_once_their_permissions_are_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "set [spark] jars_dir to the folder it prints" in refusal(lambda: connector_jars(None)).remedy
    assert "set [spark] jars_dir to the folder it prints" in refusal(lambda: connector_jars(str(tmp_path))).remedy
    jar = tmp_path / "spark-sql-kafka-0-10_2.13-4.0.0.jar"
    jar.touch()
    assert connector_jars(str(tmp_path)) == [jar]

    may_read = {jar: False}
    monkeypatch.setattr(os, "access", lambda path, mode: may_read[path])  # root may read all
    told = refusal(lambda: refuse_unreadable_jars(str(tmp_path)))
    assert told.remedy == "mend their permissions, or fetch them again: walbridge jars"
    may_read[jar] = True
    refuse_unreadable_jars(str(tmp_path))


# -- the lake and its readers --------------------------------------------------------------------------


def entry(name: str, state: str = CURRENT, version: int | None = 1, why: str | None = None) -> TableEntry:
    return TableEntry(
        1, "public", name, f"shop.public.{name}", f"public/{name}", version, "0" * 16, state, 7, None, why
    )


def row(*tables: TableEntry) -> CutRow:
    now = datetime.now(UTC)
    return CutRow(1, "published", "shop", "e", 1, 1, 1, 100, now, now, tables)


def test_table_that_the_lake_lacks_is_replaced_by_one_that_it_has() -> None:
    lake = row(entry("orders"))
    (has,) = re.findall("^it has: (.+)$", refusal(lambda: readable_tables(lake, ["public.order"])).remedy)

    assert [*readable_tables(lake, [has])] == [has]


@pytest.mark.parametrize("why", [None, "a row was missing"])
def test_table_that_is_not_current_is_accepted_as_told_or_left_out(why: str | None) -> None:
    lake = row(entry("orders"), entry("lines", "stale", why=why))
    told = refusal(lambda: readable_tables(lake)).remedy
    (states,) = re.findall(r"accept it with states=\('(\w+)', '(\w+)'\)", told)
    assert "leave it out with tables=..." in told

    assert len(readable_tables(lake, states=states)) == 2
    assert [*readable_tables(lake, ["public.orders"])] == ["public.orders"]


def test_table_whose_first_copy_goes_on_is_left_out_or_waited_for() -> None:
    lake = row(entry("orders"), entry("lines", "copying", version=None))
    told = refusal(lambda: readable_tables(lake, ["public.orders", "public.lines"])).remedy
    assert told == "leave it out with tables=..., or wait for its copy: walbridge status"

    assert [*readable_tables(lake, ["public.orders"])] == ["public.orders"]
    assert len(readable_tables(row(entry("orders"), entry("lines")), ["public.orders", "public.lines"])) == 2


def test_column_is_chosen_among_those_that_the_table_has_and_files_that_are_back_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "public" / "t"
    write_deltalake(str(folder), pa.table({"id": [1], "v": ["a"]}))
    table = LakeTable(str(tmp_path), replace(entry("t"), version=0), {})
    (has,) = re.findall("^it has: (.+)$", refusal(lambda: table.select(["nope"])).remedy)
    assert table.select(has.split(", ")).reader().read_all().to_pylist() == [{"id": 1, "v": "a"}]

    shutil.move(folder, tmp_path / "elsewhere")
    told = refusal(lambda: LakeTable(str(tmp_path), replace(entry("t"), version=0), {}))
    assert told.remedy.startswith("see that the path names this lake")
    shutil.move(tmp_path / "elsewhere", folder)
    assert LakeTable(str(tmp_path), replace(entry("t"), version=0), {}).reader().read_all().num_rows == 1


def test_property_of_a_reader_that_is_walbridges_is_left_out_and_one_that_is_wrong_mended() -> None:
    servers = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "error_cb": lambda error: None, "log_level": 0}
    told = refusal(lambda: reader(servers | {"isolation.level": "read_uncommitted"}))
    assert told.remedy == "leave it out: walbridge sets it"
    wrong = refusal(lambda: reader(servers | {"security.protocol": "x"}))
    assert wrong.remedy == "mend that property; librdkafka's documentation lists them"

    reader(servers | {"security.protocol": "plaintext"}).close()


# -- the schema registry -------------------------------------------------------------------------------


def registered(url: str, **more: object) -> int | None:
    client = Registry(settings(topics={"registry_url": url, **more}))
    try:
        return client.register("t-value", "{}")
    finally:
        client.close()


def test_address_of_a_registry_is_set_and_is_that_of_confluents_api() -> None:
    assert refusal(lambda: Registry(settings())).remedy.startswith("set [topics] registry_url")

    def apicurio(asked: tuple[str, str, Any]) -> Answer:
        return (200, {"id": 7}) if asked[1].startswith("/apis/ccompat/v7/") else (404, {})

    with answering(apicurio) as url:
        told = refusal(lambda: registered(url))
        (path,) = re.findall(r"with Apicurio it ends in (/\S+)$", told.remedy)
        assert registered(url + path) == 7
        reached = refusal(lambda: Registry(settings(topics={"registry_url": url})).reach())
        assert reached.remedy.endswith(f"with Apicurio it ends in {path}")


def test_user_of_a_registry_is_corrected() -> None:
    right = "Basic " + base64.b64encode(b"ann:right").decode()
    with answering(FirstRegistered(7), authorization=right) as url:
        told = refusal(lambda: registered(url, registry_user="ann", registry_password="wrong"))
        assert told.remedy.startswith("correct [topics] registry_user and registry_password_file")
        assert registered(url, registry_user="ann", registry_password="right") == 7


def test_files_of_tls_to_a_registry_are_named_as_pem_files(tmp_path: Path) -> None:
    pem = str(write_certificate(tmp_path))
    with answering(FirstRegistered(7), Path(pem)) as url:
        mine = {"registry_certificate_file": pem, "registry_key_file": pem}
        told = refusal(lambda: registered(url, registry_ca_file=str(tmp_path / "none"), **mine))
        assert "each names a readable PEM file" in told.remedy
        assert registered(url, registry_ca_file=pem, **mine) == 7
