"""Remedies of the producer and of the verbs that need no server, done to the letter: what was refused is taken then."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.documents import ROOT
from tests.producer.copied_session import LATE, XID, insert, shown
from tests.producer.guards.test_topic_watch import followed, with_partitions
from tests.producer.registry.answering import FirstRegistered, answering
from tests.producer.relations.test_registry_ids import ORDERS as FRAMED
from tests.producer.relations.test_registry_ids import ORDERS_2, at, framed_by, ids_of, version
from tests.producer.session.copies.test_copies_whole import begun, describe, rows, whole
from tests.producer.session.copies.told import KEYLESS
from tests.producer.session.transactions.test_transaction_spool import payloads, spool_of
from tests.remedies.test_followed_offline import refusal, settings
from tests.schemas.strategies import column, table
from tests.spark_consumer.events import column as lake_column
from tests.spark_consumer.events import relation
from tests.walbridge.tables.test_copy_words import CURRENT, STALE, known, pipeline_tables, progress
from walbridge.__main__ import _not_installed, main
from walbridge.extras import _EXTRAS, MissingPackage
from walbridge.producer.encoding.binary.types import BinaryFacts, TypeReaders
from walbridge.producer.errors.disks import set_aside_full, set_aside_unwritable
from walbridge.producer.pgoutput.options import OLDEST_SERVER, StreamWishes, start_options
from walbridge.producer.postgres.requirements import stream_options
from walbridge.producer.relations.relation_cache import RelationCache
from walbridge.producer.session.copies.state import record_queue
from walbridge.producer.session.transactions import transaction_spool
from walbridge.schemas.errors import KafkaAway, KafkaRefuses, OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Topics
from walbridge.tables.copy import refuse_first_copy, refuse_without_requests
from walbridge.tables.keys import _refuse_other_than_current
from walbridge.tail import topic_of

# -- settings that a pipeline's topics do not fit ------------------------------------------------------


def doubts(watched: Any) -> list[str]:
    return [reason.remedy for reason in watched.watched.doubts.take(2**63).values()]


def test_partitions_and_format_are_set_as_the_topics_have_them() -> None:
    (remedy, _) = doubts(opened(with_partitions(followed(), 3)))
    count = int(re.findall(r"^set it to (\d+) again; or walbridge copy public\.\w+;", remedy)[0])
    assert doubts(opened(with_partitions(followed(), count))) == []

    watched = followed()
    watched.tables.registry._settings = settings(topics={"format": "confluent", "registry_url": "http://127.0.0.1:1"})
    (remedy, _) = doubts(opened(watched))
    (form,) = re.findall(r'^set it to "([\w-]+)" again; or walbridge copy', remedy)
    watched = followed()
    watched.tables.registry._settings = Settings(name="p", topics=Topics(format=form))
    assert doubts(opened(watched)) == []


def opened(watched: Any) -> Any:
    watched.open()
    return watched


def test_registry_is_the_one_that_the_pipeline_began_with() -> None:
    right = FirstRegistered()
    [framed] = framed_by(right, FRAMED)
    cache = RelationCache("p", [framed])
    lost = replace(framed, topic="p.public.t_2", value_registry_id=None, key_registry_id=None)
    for wrong, record in ((FirstRegistered(40), lost), (FirstRegistered(), version(cache, ORDERS_2))):
        with answering(wrong) as url:
            told = refusal(lambda: ids_of(at(url), framed).framed(record))  # noqa: B023
        assert told.remedy.startswith("point [topics] registry_url at the registry that this pipeline began with, or ")
        with answering(right) as url:
            assert ids_of(at(url), framed).framed(record).value_registry_id is not None


def test_type_without_a_known_binary_format_comes_as_text_once_binary_is_off_or_its_column_left_out() -> None:
    facts = {23: BinaryFacts(23, "integer", ("", "int4out"), ("", "int4send"))}
    odd = BinaryFacts(2205, "public.odd", ("?", "odd_out"), ("?", "odd_send"))
    types = TypeReaders(lambda oids: facts | {2205: odd}, 180000)
    both = table(column("id", 23, is_key=True), replace(column("odd", 25), type_oid=2205))
    for told in (refusal(lambda: types.of_table(both)), refusal(lambda: types[2205])):
        assert told.remedy == (
            "set [postgres] binary = false, which changes no event; or leave the column out by a column list"
        )

    assert types.of_table(replace(both, columns=both.columns[:1])) == [facts[23]]
    asked = stream_options(settings(postgres={"binary": False}), 180000)
    assert "binary" not in asked
    assert "binary" in start_options(["p"], OLDEST_SERVER + 10**4 * 4, StreamWishes(binary=True))


# -- room for what waits -------------------------------------------------------------------------------


def test_transactions_that_find_no_room_are_kept_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = refusal(lambda: spool_of(tmp_path / "missing"))
    assert "or name another folder in [producer] spool_dir; or set [postgres] streaming = " in told.remedy
    full = spool_of(tmp_path)

    def no_space(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(transaction_spool, "open", no_space, raising=False)
        again = refusal(lambda: full.add().append(1, b"x" * transaction_spool.PIECE_BYTES))
    full.close()
    assert "make room there" in again.remedy
    (tmp_path / "another").mkdir()
    for folder in (tmp_path, tmp_path / "another"):
        spool = spool_of(folder)
        spooled = spool.add()
        spooled.append(1, b"x" * transaction_spool.PIECE_BYTES)
        assert len(payloads(spooled)) == 1
        spool.close()


def no_room(*_: object) -> None:
    raise record_queue.QueueFull(7)


def full_disk(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("fails", "error", "remedy"),
    [
        (no_room, set_aside_full("public.late", "spool", 7), "raise [producer] spool_bytes_max, or give public.late"),
        (full_disk, set_aside_unwritable("public.late", "spool", "full"), "make room there, or name another folder in"),
    ],
)
def test_table_that_is_read_in_one_piece_is_copied_once_its_changes_find_room(
    monkeypatch: pytest.MonkeyPatch, fails: Callable[..., None], error: OperatorError, remedy: str
) -> None:
    assert error.remedy.startswith(remedy)
    with begun() as session:
        with monkeypatch.context() as patch:
            patch.setattr(record_queue.RecordQueue, "append", fails)
            session.answer(shown(), rows(1))
            session.transaction(KEYLESS, insert(2, "too much"), xid=XID + 700)
            session.step()
            session.transaction(insert(3, "left out"), xid=XID + 701)
            stale = session.tracker.progress.tables[LATE]
            assert (stale.state, error.what.partition(" into ")[0][:30] in str(stale.why)) == ("stale", True)
        session.clock.now_s += 1000
        session.find(LATE)
        describe(session)
        session.answer(shown(), rows(1, 2, 3), whole(session))

        assert session.table().state == "current"


# -- verbs ---------------------------------------------------------------------------------------------


def test_copy_is_asked_for_once_the_producer_of_this_version_has_made_the_first() -> None:
    p, ready = Settings(name="p"), progress(CURRENT)
    first = replace(ready, state="copying")
    assert refusal(lambda: refuse_first_copy(p, first)).remedy.startswith("let walbridge produce finish it")
    earlier = replace(ready, options={})
    told = refusal(lambda: refuse_without_requests(p, earlier))
    assert told.remedy == "start walbridge produce of this version, then run this command again"

    refuse_first_copy(p, ready)
    refuse_without_requests(p, ready)


def test_rows_of_a_table_that_is_not_current_come_with_its_copy() -> None:
    stale = known("public.orders", progress=STALE)
    told = refusal(lambda: _refuse_other_than_current(stale, progress(STALE)))
    assert told.remedy.startswith("walbridge copy public.orders;")

    _refuse_other_than_current(pipeline_tables(known("public.orders")).tables[0], progress(CURRENT))


def test_table_of_tail_is_one_that_is_named_or_that_the_producer_has_begun_with() -> None:
    orders = relation([lake_column("id", "int4", is_key=True)], name="orders")
    assert refusal(lambda: topic_of("orders", [])).remedy.startswith("run walbridge produce")
    (name,) = re.findall("^name one of its tables: (.+)$", refusal(lambda: topic_of("order", [orders])).remedy)

    assert topic_of(name, [orders]) == topic_of("orders", [orders]) == orders.topic


@pytest.mark.parametrize("package", _EXTRAS)
def test_package_that_is_missing_comes_with_the_extra_that_is_named(package: str) -> None:
    told = _not_installed(MissingPackage(package, _EXTRAS[package])).remedy
    extra, every, demo = re.findall(r"'\.\[(\w+)\]'", told)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    assert {name for name in (extra, every, demo) if package in brought(extras, name)} == {extra, every, demo}


def brought(extras: dict[str, list[str]], extra: str) -> set[str]:
    names = {re.split(r"[^\w-]", each)[0].replace("-", "_") for each in extras[extra]}
    own = [name for each in extras[extra] for name in re.findall(r"^walbridge\[(.+)\]", each)]
    names |= {package for each in own for name in each.split(",") for package in brought(extras, name)}
    return names | ({"numpy"} if "pyspark" in names else set())


def test_command_whose_server_left_is_run_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: list[Callable[[], None]] = [left, lambda: None]
    monkeypatch.setattr("walbridge.tables.show.show", lambda *_, **__: answers.pop(0)() or 0)

    assert main(["tables"]) == 2
    assert "remedy: start the broker, or correct [kafka] bootstrap_servers; then run the" in capsys.readouterr().err
    assert main(["tables"]) == 0


def left() -> None:
    raise KafkaAway("the broker went away")


def test_broker_that_does_not_let_a_command_in_is_told_apart_from_one_that_is_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses(*_: object, **__: object) -> int:
        raise KafkaRefuses("Kafka does not let walbridge in")

    monkeypatch.setattr("walbridge.tables.show.show", refuses)

    assert main(["tables"]) == 2
    assert "remedy: correct [kafka.client]: security.protocol, sasl.*" in capsys.readouterr().err
