"""Remedies of the lake, its readers and the job's start, done to the letter: what was refused goes on then."""

from __future__ import annotations

import re
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.contract_events import copied, copy_begin, copy_end
from tests.contract_writer import Event
from tests.remedies.test_followed_offline import refusal
from tests.spark_consumer.delta.manifest.test_writer import row
from tests.spark_consumer.events import EPOCH, PIPELINE
from tests.spark_consumer.memory_pipeline import CUTS, METADATA, MemoryPipeline, job_over
from tests.spark_consumer.two_tables import ACCOUNTS, HISTORY, Run, begun, cut_rows, killed_at, rows_of, shown, transfer
from tests.walbridge.verify.handmade_lake import HandmadeLake
from walbridge.runtime.heap import BASE_BYTES, size_bytes
from walbridge.schemas.control.cut import Barrier, encode_cut
from walbridge.schemas.control.run_record import JOB, RUN, End, How
from walbridge.schemas.control.run_record import Run as RunRecord
from walbridge.schemas.errors import COPY_ALL_ANEW, RetryableError, Superseded
from walbridge.schemas.position import COPIED_ORDINAL, Lsn, Position
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Lake
from walbridge.spark_consumer import other_job
from walbridge.spark_consumer.delta.manifest.manifest_reader import open_table
from walbridge.spark_consumer.delta.manifest.published import published_at
from walbridge.spark_consumer.delta.manifest.status_files import LakeStatus
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.jvm.spark_session import _STATIC, _submitted
from walbridge.spark_consumer.kafka.driver_heap import DriverHeap
from walbridge.spark_consumer.other_job import naming_other_job, wait_for_other_job
from walbridge.spark_consumer.preflight import refuse_unwritable_lake, wait_for_broker
from walbridge.spark_consumer.retry import keep_going

ANEW = EPOCH._replace(consistent_point=Lsn(0x9000))


@pytest.fixture
def pipeline() -> MemoryPipeline:
    return begun()


@pytest.fixture
def run(pipeline: MemoryPipeline, lake: Path) -> Iterator[Run]:
    with job_over(pipeline, lake) as run:
        yield run


# -- where the lake is ---------------------------------------------------------------------------------


def test_lake_of_another_pipeline_is_left_for_an_own_path_or_an_own_name(lake: Path) -> None:
    Manifest(str(lake), "shop", {}).append(replace(row(1), pipeline="shop"))
    told = refusal(lambda: Manifest(str(lake), "store", {}))
    assert told.remedy == (
        "give this pipeline its own [lake] path, or set name to the lake's; if that was its name before, set formerly "
        "to it"
    )

    Manifest(str(lake), "store", {}, formerly="shop")
    Manifest(str(lake.with_name("own")), "store", {})
    Manifest(str(lake), re.findall(r"belongs to pipeline (\S+),", told.what)[0], {})


def test_lake_that_cannot_be_written_is_another_folder_and_one_that_cannot_be_seen_a_folder(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    place.write_text("")
    assert "or name another folder in [lake] path" in refusal(lambda: refuse_unwritable_lake(str(place))).remedy
    assert refusal(lambda: open_table(str(place))).remedy.startswith("see that [lake] path is a folder")
    misread = f"file://{tmp_path}/lake#2"
    assert "a local folder needs no file:// before it" in refusal(lambda: refuse_unwritable_lake(misread)).remedy

    refuse_unwritable_lake(misread.removeprefix("file://"))
    refuse_unwritable_lake(str(tmp_path / "another"))
    place.unlink()
    place.mkdir()
    assert open_table(str(place)) is None


def test_lake_whose_storage_went_is_brought_back_and_the_job_started_again(lake: Path) -> None:
    manifest = Manifest(str(lake), "p", {})
    manifest.append(row(1))
    lake.rename(lake.with_name("elsewhere"))
    assert "or bring the folder back, then start again" in refusal(lambda: manifest.append(row(2))).remedy
    lake.with_name("elsewhere").rename(lake)

    Manifest(str(lake), "p", {}).append(row(2))


def test_lake_that_was_empty_at_the_start_is_the_one_that_held_tables(
    pipeline: MemoryPipeline, run: Run, lake: Path
) -> None:
    run()
    lake.rename(lake.with_name("elsewhere"))
    transfer(pipeline, 1)
    pipeline.topics.begins[CUTS, 0] = 2
    told = refusal(run)
    assert told.remedy.startswith("if it held tables before, mount its storage or correct [lake] path; else ")
    shutil.rmtree(lake, ignore_errors=True)
    lake.with_name("elsewhere").rename(lake)
    run()

    assert shown(lake) == {"accounts": [1], "history": [0, 1]}


# -- cuts that do not fit ------------------------------------------------------------------------------


def other_cut(pipeline: MemoryPipeline, lake: Path, run: Run) -> None:
    transfer(pipeline, 1, previous_end_lsn=Lsn(0x900))


def made_anew(pipeline: MemoryPipeline, lake: Path, run: Run) -> None:
    pipeline.topics.records[CUTS, 0].clear()


def other_versions(pipeline: MemoryPipeline, lake: Path, run: Run) -> None:
    transfer(pipeline, 1)
    assert killed_at("job:plan-open", run)
    opened = cut_rows(lake)[-1]
    DeltaTable(str(lake / "_cuts")).delete(f"sequence = {opened.sequence}")
    others = tuple(replace(entry, version=(entry.version or 0) + 1) for entry in opened.tables)
    Manifest(str(lake), PIPELINE, {}).append(replace(opened, tables=others))


@pytest.mark.parametrize("bring", [other_cut, made_anew, other_versions])
def test_lake_whose_cuts_cannot_be_applied_goes_on_in_the_new_epoch_that_was_asked_for(
    pipeline: MemoryPipeline, run: Run, lake: Path, bring: Callable[[MemoryPipeline, Path, Run], None]
) -> None:
    """I8: what ``copy --all --new-epoch`` has the producer do is in ``test_copy_all.py``; here is what comes of it."""
    run()
    bring(pipeline, lake, run)
    told = refusal(run).remedy
    assert told == COPY_ALL_ANEW
    assert refusal(run).remedy == told, "until the epoch has begun"

    gone = [(each, Barrier("dropped", Position(Lsn(0x9000), COPIED_ORDINAL))) for each in (ACCOUNTS, HISTORY)]
    pipeline.last = replace(pipeline.last, epoch=ANEW, cut_id=0, end_lsn=Lsn(0x9000))
    pipeline.send(barriers=gone, end_lsn=Lsn(0x9000))
    pipeline.send()  # a topic that was made anew has outgrown the place up to which the lake had read
    run()
    assert states(lake) == {"accounts": ("stale", [0]), "history": ("stale", [0])}
    for of, n in ((ACCOUNTS, 5), (HISTORY, 7)):
        marker, begin = copy_begin(of, 0x9010)
        pipeline.send(marker, *copied(of, 0x9010, {"id": 1, "n": n}), barriers=[begin])
        marker, end = copy_end(of, 0x9010)
        pipeline.send(marker, barriers=[end])
        run()
        assert states(lake)["history"][0] == ("stale" if of is ACCOUNTS else "current")
    assert states(lake) == {"accounts": ("current", [5]), "history": ("current", [7])}
    pipeline.send(Event(HISTORY, "c", 0x9990, 0, after={"id": 1, "n": 8}))
    run()
    assert shown(lake) == {"accounts": [5], "history": [7, 8]}


def states(lake: Path) -> dict[str, tuple[str, list[int]]]:
    """State and column n of each table, at the version that the newest row names."""
    row = cut_rows(lake)[-1]
    assert row.kind == "published"
    return {entry.name: (entry.state, [int(n) for n in rows_of(lake, entry)]) for entry in row.tables}


def test_topics_that_were_restored_from_another_time_are_corrected(
    pipeline: MemoryPipeline, run: Run, lake: Path
) -> None:
    run()
    transfer(pipeline, 1)
    right = pipeline.topics.records[CUTS, 0].pop()
    pipeline.topics.add(CUTS, encode_cut(replace(pipeline.last, epoch=EPOCH._replace(consistent_point=Lsn(0x800)))))
    assert refusal(run).remedy.startswith("if topics or lake were restored from an older state")
    pipeline.topics.records[CUTS, 0][-1] = right
    run()

    assert shown(lake) == {"accounts": [1], "history": [0, 1]}


def test_topic_of_cuts_that_is_not_there_is_made_by_the_producer_that_is_started_first(lake: Path) -> None:
    pipeline = MemoryPipeline()
    pipeline.topics.records[METADATA, 0] = []
    with job_over(pipeline, lake) as run:
        assert refusal(run).remedy.startswith("start the producer first: walbridge init, then walbridge produce; or ")
        pipeline.topics.records |= begun().topics.records
        pipeline.log.rows += begun().log.rows
        run()
    assert shown(lake) == {"accounts": [0], "history": [0]}


# -- a second job, a broker, a heap --------------------------------------------------------------------


def test_second_job_that_was_stopped_lets_the_first_read_on_from_the_manifest(lake: Path) -> None:
    manifest, other = (Manifest(str(lake), "p", {}) for _ in range(2))
    other.append(row(1))
    now = datetime.now(UTC)
    status = LakeStatus(Settings(name="p", lake=Lake(path=str(lake))))
    status.write({RUN: RunRecord(JOB, "p", "1", "0.1.0", "db-host", 7, "boot/pid:[1]/7/99", now, now, "running")})
    with pytest.raises(Superseded, match="process 7 on db-host") as told, naming_other_job(status, lambda run: False):
        manifest.append(row(1))
    assert told.value.remedy.startswith("stop the other job, then start this one again")

    Manifest(str(lake), "p", {}).append(row(2))


def test_job_that_is_waited_for_in_vain_is_stopped_and_this_one_started_again(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Manifest(str(lake), "p", {})
    now = datetime.now(UTC)
    other = RunRecord(JOB, "p", "1", "0.1.0", "db-host", 7, "boot/pid:[1]/7/99", now, now, "running")
    status = LakeStatus(Settings(name="p", lake=Lake(path=str(lake))))
    passed = [0.0]

    def wait(seconds: float) -> None:
        passed[0] += seconds
        status.write({RUN: replace(other, seen=datetime.fromtimestamp(now.timestamp() + passed[0], UTC))})

    monkeypatch.setattr(other_job, "time", SimpleNamespace(monotonic=lambda: passed[0]))
    stop: Any = SimpleNamespace(is_set=lambda: False, wait=wait)
    wait(0)
    told = refusal(lambda: wait_for_other_job(status, 30, stop))
    assert "else stop it, then start this one again" in told.remedy
    status.write({RUN: other.ended(End(now, How.STOPPED, 0))})

    wait_for_other_job(status, 30, stop)


def test_broker_is_started_or_its_address_corrected() -> None:
    stop = threading.Event()
    told = refusal(lambda: wait_for_broker("127.0.0.1:1", 0.1, stop))
    assert told.remedy == "start the broker, or correct [kafka] bootstrap_servers"
    with socket.create_server(("127.0.0.1", 0)) as broker:
        wait_for_broker(f"127.0.0.1:{broker.getsockname()[1]}", 0.1, stop)

    answers = iter([RetryableError("no answer"), None])

    def attempt() -> None:
        if (answer := next(answers)) is not None:
            raise answer

    again = refusal(lambda: keep_going(attempt, lambda: False, stop, start_timeout_s=0))
    assert again.remedy == told.remedy
    keep_going(attempt, lambda: False, stop, start_timeout_s=0)


@pytest.mark.parametrize("size", [40_000_000, None])
def test_record_that_the_heap_cannot_take_is_taken_with_the_memory_that_is_named(size: int | None) -> None:
    heap = DriverHeap(BASE_BYTES + 2**28, 2, 2**20)
    told = heap.too_large("t", 0, 7, size).first or ""
    memory = re.findall(r'^set \[spark\] driver_memory = "(\w+)" or more', told)[0]

    larger = DriverHeap(size_bytes(memory) or 0, 2, 2**20)
    assert larger.largest_record >= (size or 2 * heap.largest_record)


def test_session_that_does_not_know_delta_is_submitted_with_the_options_that_are_named() -> None:
    given: dict[str, str] = {}
    conf = SimpleNamespace(set=lambda name, value: None)
    context = SimpleNamespace(getConf=lambda: given)
    spark: Any = SimpleNamespace(sparkContext=context, conf=conf)
    for name, value in re.findall(r"--conf (\S+?)=(\S+)", refusal(lambda: _submitted(spark)).remedy):
        given[name] = value

    assert {*given} == {*_STATIC}
    assert _submitted(spark) is spark


# -- readers -------------------------------------------------------------------------------------------


def test_published_state_is_asked_for_at_a_later_lsn_or_as_the_examples_are_written(lake: Path) -> None:
    told = refusal(lambda: published_at(str(lake)))
    assert told.remedy.endswith("else let the Spark job finish the first copy: walbridge status")
    shop = HandmadeLake(lake, "shop")
    shop.write("public.orders", {"id": pa.int64()}, [{"id": 1}])
    shop.publish(100)
    assert published_at(str(lake)).end_lsn == 100
    assert refusal(lambda: published_at(str(lake), "0/1")).remedy.startswith("ask for a later LSN;")
    lsn, time = re.findall('"(.+?)"', refusal(lambda: published_at(str(lake), "noon")).remedy)
    assert refusal(lambda: published_at(str(lake), time)).remedy.startswith("ask for a later time;")

    (day,) = re.findall('"(.+?)"', refusal(lambda: published_at(str(lake), "9999-01-01")).remedy)

    assert [published_at(str(lake), at).end_lsn for at in (lsn, "0/64", time.replace("2026", "9999"), day)] == [100] * 4
