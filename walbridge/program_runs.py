"""What the programs last said of themselves, and what this machine knows of it. Reads only.

In: settings. Out: the last words of each. The producer's are in Kafka, the job's in the lake; an end that neither could
be told of is in a file of this user on the machine where it happened.
"""

from datetime import UTC, datetime

from walbridge.producer.kafka.status_topic import newest_runs
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.runtime.reports.left_words import LeftWords
from walbridge.runtime.reports.own_process import is_alive
from walbridge.schemas.control.run_record import JOB, PRODUCER, VERIFIER, LastWords, Run, last_words
from walbridge.schemas.errors import WalbridgeError
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import status_topic


def producer_words(settings: Settings) -> LastWords:
    """Of the producer of our slot.

    Raises:
        RetryableError: no broker answers, and nothing is left here.
        OperatorError: the topic may not be read, likewise.
    """
    return _in_kafka(settings, PRODUCER)


def verifier_words(settings: Settings) -> LastWords:
    """Of what verifies the lake of this pipeline again and again. Raises as ``producer_words``."""
    return _in_kafka(settings, VERIFIER)


def left_words(settings: Settings, program: str) -> LastWords:
    """Of a program whose peer does not answer: what this machine knows."""
    return _words(settings, program, None, None)


def job_words(settings: Settings) -> LastWords:
    """Of the job of this pipeline.

    Raises:
        RetryableError: the lake cannot be read, and nothing is left here.
    """
    # The producer's machine need not have what reads a lake.
    from walbridge.spark_consumer.delta.manifest.status_files import LakeStatus

    try:
        found = LakeStatus(settings).read()
    except WalbridgeError:
        return _left_alone(settings, JOB)
    return _words(settings, JOB, *found)


def _in_kafka(settings: Settings, program: str) -> LastWords:
    try:
        topics = TopicAdmin(settings).partition_counts_of([status_topic(settings.name)])
        found = newest_runs(settings, topics, program)
    except WalbridgeError:
        return _left_alone(settings, program)
    return _words(settings, program, *found)


def _left_alone(settings: Settings, program: str) -> LastWords:
    """In an ``except`` block, whose error goes on where there is nothing."""
    if LeftWords(settings, program).read() is None:
        raise
    return left_words(settings, program)


def _words(settings: Settings, program: str, run: Run | None, end: Run | None) -> LastWords:
    left = LeftWords(settings, program).read()
    alive = None if run is None else is_alive(run.process)
    return last_words(run, [end, left], datetime.now(UTC), alive)
