"""Variables and folders that a session would go by."""

import os
from pathlib import Path

import pyspark
import pytest

from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.jvm.surroundings import refuse_surroundings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder that looks like a Spark, without its jars."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").touch()
    (tmp_path / "jars").mkdir()
    return tmp_path


def test_spark_home_without_a_spark_is_refused_until_it_is_unset(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="where no Spark is") as refused:
        refuse_surroundings({"SPARK_HOME": str(tmp_path)})
    assert "unset SPARK_HOME" in refused.value.remedy

    refuse_surroundings({})


def test_spark_home_of_another_version_is_refused(home: Path) -> None:
    (home / "jars" / "spark-core_2.12-3.5.1.jar").touch()

    with pytest.raises(OperatorError, match=r"which is Spark 3\.5"):
        refuse_surroundings({"SPARK_HOME": str(home)})


def test_spark_home_of_the_same_version_is_taken(home: Path) -> None:
    (home / "jars" / f"spark-core_2.13-{pyspark.__version__}.jar").touch()

    refuse_surroundings({"SPARK_HOME": str(home)})
    refuse_surroundings({"SPARK_HOME": str(Path(pyspark.__file__).parent)})


def test_current_folder_that_is_gone_is_left_for_one_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    try:
        with pytest.raises(OperatorError, match="cannot be entered: No such file or directory"):
            refuse_surroundings({})
    finally:
        os.chdir(tmp_path)

    refuse_surroundings({})
