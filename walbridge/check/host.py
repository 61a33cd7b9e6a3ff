"""This machine: the producer's spool; for ``walbridge materialize`` its heap, Java and Spark's jars. Fetches nothing.

In: settings. Out: findings. ``walbridge produce`` needs neither, so a machine without Java is at
fault only where the job is meant to run too: where its jars or its lake are.
"""

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from walbridge.check.finding import Finding, advice, error, ok, refused, warning
from walbridge.check.room import mib, room_findings
from walbridge.embedded.folders import place_of
from walbridge.embedded.jars import check as check_jars
from walbridge.embedded.jars import read_lock
from walbridge.embedded.java import look_for_java
from walbridge.producer.session.transactions.transaction_spool import spool_parent
from walbridge.runtime.heap import (
    SPARK_SHARE,
    largest_record,
    largest_row,
    more_memory,
    record_bytes_max,
    size_bytes,
    spark_share,
)
from walbridge.runtime.host import probe_folder
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings

SPOOL = "spool"
SPOOL_LOW_BYTES = 2**30
"""Room for a transaction of some million rows; the most that a spool may take is seldom free."""
MEMORY = "memory"
JAVA = "java"
JARS = "jars"


def spool_findings(settings: Settings) -> Iterator[Finding]:
    """The spool folder: transactions wait there for their commit, and rows of tables that are copied beside the
    stream."""
    postgres = settings.postgres
    is_needed = postgres.streaming != "off" or postgres.two_phase
    waits = "transactions that are not committed yet" if is_needed else "rows of tables that are copied"
    less = "" if postgres.two_phase or not is_needed else ', or set [postgres] streaming = "off"'
    parent = spool_parent(settings)
    try:
        if not parent.is_dir():  # the producer makes its folder in it, not the folder itself
            raise NotADirectoryError(0, "not a folder")
        probe_folder(parent)
    except OSError as failure:
        found = error if is_needed else warning
        yield found(
            SPOOL,
            f"{waits} cannot be kept in {parent}: {failure.strerror}",
            f"name another folder in [producer] spool_dir{less}",
        )
        return
    free, limit = shutil.disk_usage(parent).free, settings.producer.spool_bytes_max
    yield ok(
        SPOOL,
        f"{parent} can be written: {mib(free)} free; {waits} take {mib(limit)} at most",
    )
    yield from room_findings(
        SPOOL,
        parent,
        SPOOL_LOW_BYTES,
        f"make room, or name a larger disk in [producer] spool_dir{less}",
    )


def memory_findings(settings: Settings) -> Iterator[Finding]:
    """Whether the Spark driver's heap takes the largest row that the producer may send."""
    conf = settings.spark.conf
    text = conf.get("spark.driver.memory", settings.spark.driver_memory)
    heap = size_bytes(text)
    if heap is None:
        yield error(MEMORY, f"Spark does not take {text!r} as its driver's memory", 'write it as "1g" or "1536m"')
        return
    try:
        share = spark_share(conf.get("spark.memory.fraction", str(SPARK_SHARE)))
    except OperatorError as refusal:
        yield refused(MEMORY, refusal)
        return
    row = settings.producer.row_bytes_max
    record, takes = record_bytes_max(row), largest_record(heap, share)
    if record <= takes:
        yield ok(
            MEMORY,
            f"a Spark driver with {text} takes rows of {mib(largest_row(takes))} with their old row, "
            f"the producer sends at most {mib(row)}",
        )
        return
    yield warning(
        MEMORY,
        f"a Spark driver with {text} takes rows of {mib(largest_row(takes))} with their old row, the producer sends "
        f"up to {mib(row)}: a larger one stops the job, and all is read twice to look for one",
        f"{more_memory(record, share)}, or [producer] row_bytes_max = {largest_row(takes)}",
    )


def java_findings(settings: Settings) -> Iterator[Finding]:
    """Spark runs on Java 17 and 21."""
    if not _has_spark():
        return
    try:
        java = look_for_java()
    except OperatorError as refusal:
        sign = _sign_of_the_job(settings)
        if sign is None:
            text = f"{refusal.what}: walbridge produce needs none, but walbridge materialize would not run here"
            yield warning(JAVA, text, f"if it is to run here: {refusal.remedy}")
        else:
            yield error(JAVA, f"{refusal.what}, and walbridge materialize seems to run here: {sign}", refusal.remedy)
    else:
        yield ok(JAVA, f"version {java.major} in {java.java_home}")


def _has_spark() -> bool:
    """Whether the extra spark is installed: the job and ``walbridge jars`` need it."""
    return find_spec("pyspark") is not None


def _sign_of_the_job(settings: Settings) -> str | None:
    """A sign on this machine that the Spark job runs here, for a finding's text; None where there is none."""
    chosen, fetched, lake = settings.spark.jars_dir, place_of("jars") / "spark", settings.lake.path
    if chosen is not None:
        return f"[spark] jars_dir is {chosen}"
    if fetched.is_dir():
        return f"Spark's jars are in {fetched}"
    return f"the lake is in {lake}" if Path(lake).is_dir() else None


def jar_findings(settings: Settings) -> Iterator[Finding]:
    """Compare each jar with its checksum."""
    if not _has_spark():
        return
    chosen = settings.spark.jars_dir
    place = Path(chosen) if chosen is not None else place_of("jars") / "spark"
    locked = [jar for jar in read_lock() if jar.set_name == "spark"]
    if chosen is None and not list(place.glob("*.jar")):
        yield advice(
            JARS,
            "Spark's jars are not fetched yet",
            "run walbridge jars; else walbridge materialize fetches them when it starts",
        )
        return
    if chosen is not None and (unfit := _unfit_jars(chosen)) is not None:
        yield refused(JARS, unfit)
        return
    try:
        check_jars(place, locked)
    except OperatorError as refusal:
        fetch_again = "leave out [spark] jars_dir, or fill it with the files of: walbridge jars --print"
        yield warning(JARS, f"in {place}: {_differs(refusal)}", fetch_again)
    else:
        yield ok(JARS, f"{len(locked)} jars in {place}, each as jars.lock names it")


def _unfit_jars(jars_dir: str) -> OperatorError | None:
    """Why the job would not start with these jars; None where it would."""
    from walbridge.spark_consumer.preflight import refuse_unreadable_jars  # it is slow to import, and may not be there

    try:
        refuse_unreadable_jars(jars_dir)
    except OperatorError as refusal:
        return refusal
    return None


def _differs(refusal: OperatorError) -> str:
    return refusal.what.replace("could not be fetched", "is missing")
