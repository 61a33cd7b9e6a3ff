"""What happens to the two programs: they die, are updated, started twice, or with settings that do not fit."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from confluent_kafka import Producer

from tests.faults.campaign.stage import Program
from tests.faults.year.of_database import large_transaction
from tests.faults.year.year_stage import YearStage
from tests.format_1 import encode_format_1
from tests.topic_reader import Topics
from walbridge.runtime.stop_signals import handled_signals
from walbridge.schemas.topics import progress_topic


def programs_killed(stage: YearStage) -> None:
    stage.producer.kill()
    stage.job.kill()


def rolling_update(stage: YearStage) -> None:
    """The new producer is there before the old one is asked to end."""
    stage.replace_producer()


def job_stopped_in_a_plan(stage: YearStage) -> None:
    """By whoever stops a service, with much to do; also with no plan in work it ends in order."""
    large_transaction(stage)
    stage.pause(stage.dice.uniform(0, 6))
    stage.job.keep_running()
    stage.job.stop()


def job_updated(stage: YearStage) -> None:
    """As a rolling update does it: the new one is there before the old one is asked to end."""
    stage.replace_job()


def asked_to_end(stage: YearStage) -> None:
    """By Ctrl-C, a closed terminal or a service manager, at whatever they do."""
    stage.pause(stage.dice.uniform(0, 6))
    for program in (stage.producer, stage.job):
        program.keep_running()
        program.stop(stage.dice.choice(handled_signals()))


def jvm_killed(stage: YearStage) -> None:
    """By the kernel, for its memory."""
    stage.pause(stage.dice.uniform(0, 4))
    for pid in _javas_of(stage.job.pid):
        os.kill(pid, signal.SIGKILL)


def second_producer(stage: YearStage) -> None:
    """It waits in vain, and names the one that goes on."""
    _refused_beside(stage, stage.producer, "walbridge.producer", "POSTGRES", "has a producer")


def second_job(stage: YearStage) -> None:
    """Likewise."""
    stage.settle("the load")
    _refused_beside(stage, stage.job, "walbridge.spark_consumer", "LAKE", "another job runs on this lake")


def _refused_beside(stage: YearStage, first: Program, module: str, section: str, why: str) -> None:
    pid = first.pid
    words = stage.refused(module, {f"WALBRIDGE_{section}__START_TIMEOUT_S": "4"})
    assert why in words, words
    first.keep_running()
    assert first.pid == pid, "the first one goes on"


def settings_contradict(stage: YearStage) -> None:
    """A slip in the file, found at the next start."""
    section, name, value = stage.dice.choice(SLIPS)
    was = stage.config.read_text()
    stage.attendant.set(section, name, value)
    stage.attendant.knows("mend the file", lambda: stage.config.write_text(was))
    stage.producer.stop()
    stage.job.stop()


def memory_too_small(stage: YearStage) -> None:
    """Spark asks for more than this to begin."""
    stage.attendant.set("spark", "driver_memory", '"200m"')
    stage.attendant.knows("[spark]", lambda: stage.attendant.set("spark", "driver_memory", '"1g"'))
    stage.job.stop()


def progress_of_format_1(stage: YearStage) -> None:
    """As the first version left it, that is updated to this one."""
    stage.producer.stop()
    with Topics(stage.kafka.bootstrap_servers, stage.pipeline) as topics:
        progress = topics.progress()
    assert progress is not None
    writer = Producer({"bootstrap.servers": stage.kafka.bootstrap_servers})
    writer.produce(progress_topic(stage.pipeline), encode_format_1(progress), progress.key)
    assert writer.flush(60) == 0


SLIPS = (
    ("topics", "partitons", "2"),
    ("topics", "partitions", '"two"'),
    ("lake", "all_cuts_hours", "48"),
    ("topics", "retention_ms", "-2"),
    ("producer", "on_table_error", '"ignore"'),
)
"""Keys and values that mean nothing, or contradict what else is set."""


def _javas_of(session: int) -> list[int]:
    """Of the processes that a program started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = status.read_text().rpartition(")")
        except OSError:
            continue
        if name.endswith("(java") and int(rest.split()[3]) == session:
            found.append(int(status.parent.name))
    return found
