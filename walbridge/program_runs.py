"""The last run record of each program of a pipeline, and what this machine adds to it. Reads only.

In: settings. Out: the last words of each program. The producer writes its run records to Kafka, the job to the lake. An
end that could be written to neither is in a file of this user, on the machine where the program ran.
"""

from datetime import UTC, datetime

from walbridge.producer.kafka.status_topic import newest_runs
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.runtime.reports.local_end import LocalEnd
from walbridge.runtime.reports.own_process import is_alive
from walbridge.schemas.control.run_record import JOB, PRODUCER, VERIFIER, LastWords, Run, last_words
from walbridge.schemas.errors import WalbridgeError
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import status_topic


def producer_words(settings: Settings) -> LastWords:
    """The last words of the producer of our slot.

    Raises:
        RetryableError: no broker answers, and this machine has no record of an end.
        OperatorError: the topic may not be read, and this machine has no record of an end.
    """
    return _in_kafka(settings, PRODUCER)


def verifier_words(settings: Settings) -> LastWords:
    """The last words of ``walbridge verify --every`` for this pipeline. Raises as ``producer_words``."""
    return _in_kafka(settings, VERIFIER)


def words_on_this_machine(settings: Settings, program: str) -> LastWords:
    """The last words of a program as far as this machine knows: for when Kafka, or the lake, does not answer."""
    return _words(settings, program, None, None)


def job_words(settings: Settings) -> LastWords:
    """The last words of the job of this pipeline.

    Raises:
        RetryableError: the lake cannot be read, and this machine has no record of an end.
    """
    # Imported here: the producer's machine need not have the packages that read a lake.
    from walbridge.spark_consumer.delta.manifest.status_files import LakeStatus

    try:
        found = LakeStatus(settings).read()
    except WalbridgeError:
        return _local_or_raise(settings, JOB)
    return _words(settings, JOB, *found)


def _in_kafka(settings: Settings, program: str) -> LastWords:
    try:
        topics = TopicAdmin(settings).partition_counts_of([status_topic(settings.name)])
        found = newest_runs(settings, topics, program)
    except WalbridgeError:
        return _local_or_raise(settings, program)
    return _words(settings, program, *found)


def _local_or_raise(settings: Settings, program: str) -> LastWords:
    """Called in an ``except`` block: raises its error again if this machine has no record of an end."""
    if LocalEnd(settings, program).read() is None:
        raise
    return words_on_this_machine(settings, program)


def _words(settings: Settings, program: str, run: Run | None, end: Run | None) -> LastWords:
    left = LocalEnd(settings, program).read()
    alive = None if run is None else is_alive(run.process)
    return last_words(run, [end, left], datetime.now(UTC), alive)
