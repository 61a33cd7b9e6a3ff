"""Makes the class archives of broker and Spark, if they are not there: ``python -m tests.class_archives``.

One run of the job over two small tables loads most of what any start loads. Half a minute, once.
"""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from tests.contract_writer import ContractWriter
from tests.jvm import FIRST_COMPILER_ONLY, SPARK_CONF, archived_class_path, spark_archive, spark_conf
from tests.spark_consumer.accounts import ACCOUNT, HISTORY, transfer
from tests.spark_consumer.program import Program
from walbridge.embedded.class_archive import FOLDER, ClassArchive
from walbridge.embedded.folders import folder, locked
from walbridge.embedded.jars import SETS, fetch
from walbridge.embedded.kafka import KafkaBroker, broker_archive
from walbridge.schemas.errors import WalbridgeError


def make_archives() -> None:
    """Of the Java that is found."""
    fetch(SETS)
    spark, broker = spark_archive(), broker_archive()
    with locked(folder(FOLDER) / ".lock"):
        if spark.options() and broker.options():
            return
        print("making class archives: half a minute, once")
        # Whatever is wrong with a server is for the tests to say: they start their own.
        away = suppress(WalbridgeError, OSError, subprocess.SubprocessError)
        with away, _made_or_drafted(broker) as broker_options, _made_or_drafted(spark) as spark_options:
            _train(broker_options, spark_options)
        if not (spark.options() and broker.options()):
            print("no class archive was made: tests take a little longer")


def _made_or_drafted(archive: ClassArchive) -> AbstractContextManager[tuple[str, ...]]:
    """A JVM that starts from an archive of ours makes no other."""
    options = archive.options()
    return nullcontext(options) if options else archive.drafted()


def _train(broker_options: tuple[str, ...], spark_options: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory(prefix="walbridge-") as name, KafkaBroker(jvm=broker_options) as broker:
        folder = Path(name)
        writer = ContractWriter(broker.bootstrap_servers, "training")
        accounts = writer.relation("accounts", ACCOUNT, relation_id=1, partitions=2)
        history = writer.relation("history", HISTORY, relation_id=2)
        writer.copy([(accounts, [{"id": 1, "balance": 0}]), (history, [])])
        writer.send(transfer(accounts, history, 0x2000, 1, 1))
        conf = spark_conf(folder, FIRST_COMPILER_ONLY, *spark_options, conf=archived_class_path())
        Program(broker, "training", folder / "lake", folder).run("--once", **{SPARK_CONF: conf})
        broker.stop()  # in order: that is when it writes


if __name__ == "__main__":
    make_archives()
