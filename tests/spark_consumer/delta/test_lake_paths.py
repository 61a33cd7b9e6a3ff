"""Which paths of a lake are misread, and that these and no others are refused: delta-rs is asked, and Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pydantic import ValidationError
from pyspark.sql import SparkSession

from tests.in_soak import in_soak
from walbridge.lake import tables_at
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.setting_checks.lake_path import refuse_misread
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.by_spark.commit import path_for_spark
from walbridge.spark_consumer.delta.dialect import SPARK

READ = "a b!\"$&'()*+,-.:;<=>@_{}~é日😀%zz%"
"""Also ``#`` and ``?``, where no ``file://`` stands before it."""
MISREAD = ["\x01", "\n", "\x7f", "[", "\\", "]", "^", "|", "%20", "%2F", "%c3"]
MISREAD_IN_A_URL = ["#", "?"]


def is_read_right(uri: str, folder: Path) -> bool:
    """Whether delta-rs writes a table there and finds it again."""
    folder.mkdir(parents=True)
    try:
        for mode in ("error", "append"):
            write_deltalake(f"{uri}/t", pa.table({"n": [1]}), mode=mode)
        return DeltaTable(f"{uri}/t").version() == 1 and (folder / "t" / "_delta_log").is_dir()
    except BaseException:  # a panic of its own is none of Python's exceptions
        return False


def is_refused(uri: str) -> bool:
    try:
        refuse_misread(uri)
        Settings(name="p", lake={"path": uri})  # type: ignore[arg-type]
    except (OperatorError, ValidationError):
        return True
    return False


@pytest.mark.parametrize("before", ["", "file://"])
@pytest.mark.parametrize("part", [*MISREAD, *MISREAD_IN_A_URL, READ])
def test_path_is_refused_exactly_where_delta_rs_misreads_it(tmp_path: Path, before: str, part: str) -> None:
    folder = tmp_path / f"a{part}b"
    uri = f"{before}{folder}"

    assert is_refused(uri) == (not is_read_right(uri, folder))
    assert is_refused(uri) == (part != READ and (bool(before) or part in MISREAD))


def test_readers_and_a_folder_that_the_path_is_relative_to_are_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "100%25 [odd]"
    odd.mkdir()
    monkeypatch.chdir(odd)
    with pytest.raises(
        OperatorError, match=r"holds '%25' and '\[' and '\]', which delta-rs and Spark do not read alike"
    ):
        tables_at("lake")


def test_path_that_a_locale_cannot_name_is_refused_in_words_until_it_is_set_as_they_say() -> None:
    """By programs and readers, whose files those are."""
    command = [sys.executable, "-c", "from walbridge.lake import tables_at; tables_at('/nowhere/\\xe9')"]

    def said(environment: dict[str, str]) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
        return done.stderr

    refused = said({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})
    assert "the lake's path '/nowhere/\\xe9' cannot be named here, where file names are ascii" in refused
    assert "set LC_ALL=C.UTF-8 in this program's environment" in refused
    assert "cannot be named" not in said({"LC_ALL": "C.UTF-8"})


@pytest.mark.parametrize("before", ["", in_soak("file://")])
def test_spark_and_delta_rs_read_a_path_that_is_not_refused_alike(
    spark: SparkSession, tmp_path: Path, before: str
) -> None:
    folder = tmp_path / (READ + ("" if before else "#?"))
    uri = f"{before}{folder}/t"
    write_deltalake(uri, pa.table({"n": [1]}))
    at_home = path_for_spark(uri)
    spark.range(1).toDF("n").write.format("delta").mode("append").save(at_home)
    spark.sql(f"DELETE FROM delta.{SPARK.quoted(at_home)} WHERE n = 1").collect()

    assert DeltaTable(uri).version() == 2
    assert spark.read.format("delta").load(at_home).count() == 1
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
