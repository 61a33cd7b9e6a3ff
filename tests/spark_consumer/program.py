"""The Spark job as a program of its own: ``python -m walbridge.spark_consumer``, or under spark-submit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from deltalake import DeltaTable, QueryBuilder

from tests.fix_spark import NO_PYTHON
from tests.jvm import archived_class_path, short_lived
from walbridge.embedded.jars import spark_jars
from walbridge.embedded.java import find_java
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.control.table_progress import CURRENT
from walbridge.spark_consumer.read import published

ROOT = Path(__file__).parents[2]
START_S = 300


class Program:
    """The job as a process, with a settings file of its own."""

    def __init__(self, kafka: KafkaBroker, pipeline: str, lake: Path, folder: Path) -> None:
        self.lake, self._folder = lake, folder
        self._config = folder / "walbridge.toml"
        self._config.write_text(
            f'name = "{pipeline}"\n'
            f'[kafka]\nbootstrap_servers = "{kafka.bootstrap_servers}"\n'
            f'[lake]\npath = "{lake}"\n'
            f'[spark]\njars_dir = "{spark_jars()[0].parent}"\nmaster = "local[2]"\ndriver_memory = "1g"\n'
            f'[spark.conf]\n"spark.pyspark.python" = "{NO_PYTHON}"\n"spark.local.dir" = "{folder / "local"}"\n'
        )

    def run(
        self, *arguments: str, module: str = "walbridge.spark_consumer", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", module, "--config", str(self._config), *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=environment(variables), capture_output=True, text=True, timeout=START_S, check=False
        )

    @contextmanager
    def running(
        self, *, module: str = "walbridge.spark_consumer", **variables: str
    ) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
        """The process, and the file that takes what it says; killed should the block fail."""
        said = self._folder / "said"
        command = [sys.executable, "-m", module, "--config", str(self._config)]
        with said.open("wb") as out:
            process = subprocess.Popen(command, cwd=ROOT, env=environment(variables), stdout=out, stderr=out)
            try:
                yield process, said
            finally:
                process.kill()
                process.wait()

    def submit(self, archive: Path) -> subprocess.CompletedProcess[str]:
        spark_submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        confs = {
            **archived_class_path(),
            "spark.jars": ",".join(map(str, spark_jars())),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": " ".join((*short_lived(), f"-Djava.io.tmpdir={self._folder}")),
        }
        command = [str(spark_submit), "--master", "local[2]", "--py-files", str(archive)]
        command += [part for name, value in confs.items() for part in ("--conf", f"{name}={value}")]
        command += [str(ROOT / "spark_consumer" / "__main__.py"), "--config", str(self._config), "--once"]
        variables = {"PYSPARK_DRIVER_PYTHON": sys.executable}
        return subprocess.run(
            command,
            cwd=self._folder,
            env=environment(variables),
            capture_output=True,
            text=True,
            timeout=START_S,
            check=False,
        )

    def rows(self, name: str) -> list[tuple[int, int]]:
        """The published rows of a table, read without Spark."""
        (entry,) = (entry for entry in published(str(self.lake))[-1].tables if entry.name == name)
        table = DeltaTable(f"{self.lake}/{entry.path}", version=entry.version)
        columns = [field.name for field in table.schema().fields[:2]]
        found = QueryBuilder().register("t", table).execute(f"SELECT {', '.join(columns)} FROM t").read_all()
        return sorted(zip(*(found[name].to_pylist() for name in columns), strict=True))

    def is_copied(self, name: str) -> bool:
        """Whether no copy of the table waits for its place in the lake."""
        (entry,) = (entry for entry in published(str(self.lake))[-1].tables if entry.name == name)
        return entry.state == CURRENT and entry.copy_from is None

    def end_lsn(self) -> int:
        """The newest published LSN, 0 before the first."""
        rows = published(str(self.lake))
        return rows[-1].end_lsn if rows else 0


def environment(variables: dict[str, str]) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("WALBRIDGE_KILL", "PYSPARK", "SPARK"))
    }
    return kept | {"JAVA_HOME": str(find_java().java_home), "SPARK_LOCAL_IP": "127.0.0.1"} | variables
