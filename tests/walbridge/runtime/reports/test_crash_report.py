"""I10: a crash says where, in Python and in Java, and never what a library's message quotes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from walbridge import __main__ as command
from walbridge.producer import __main__ as producer_program
from walbridge.producer.pipeline import Pipeline
from walbridge.runtime.reports.crash_report import report_bug
from walbridge.schemas import settings
from walbridge.schemas.errors import EXIT_BUG, RetryableError
from walbridge.spark_consumer import __main__ as job_program

CANARY = "canary-of-a-row"


def caught(fail: Callable[[], object]) -> Exception:
    try:
        fail()
    except Exception as error:
        return error
    raise AssertionError("nothing failed")


def said(error: Exception, capsys: pytest.CaptureFixture[str]) -> str:
    assert report_bug(error) == EXIT_BUG
    return capsys.readouterr().err


def test_row_that_breaks_a_constraint_of_the_lake_is_not_quoted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_deltalake(str(tmp_path), pa.table({"v": ["a"], "n": [1]}))
    DeltaTable(str(tmp_path)).alter.add_constraint({"small": "n < 3"})
    error = caught(lambda: write_deltalake(str(tmp_path), pa.table({"v": [CANARY], "n": [5]}), mode="append"))
    text = said(error, capsys)

    assert CANARY in str(error)
    assert CANARY not in text
    assert "DeltaError" in text
    assert f'File "{__file__}", line' in text


@pytest.mark.parametrize(
    ("call", "java_class"),
    [("Integer.parseInt", "NumberFormatException"), ("Class.forName", "ClassNotFoundException")],
)
def test_value_that_java_quotes_is_left_out_and_its_stack_is_kept(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], call: str, java_class: str
) -> None:
    """As pyspark raises it, and as py4j does."""
    holder, method = call.split(".")
    java = getattr(getattr(spark._jvm, "java").lang, holder)  # noqa: B009 - not known to the types
    error = caught(lambda: getattr(java, method)(f"{CANARY}\nx.Y: {CANARY}\n\tat {CANARY}"))
    text = said(error, capsys)

    assert CANARY in str(error)
    assert CANARY not in text
    assert f"\n  java.lang.{java_class}\n  at " in text
    assert f"at java.base/java.lang.{call}(" in text


def test_cause_comes_first_and_words_of_our_own_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        try:
            raise KeyError(CANARY)
        except KeyError as cause:
            raise RetryableError("Kafka went away") from cause

    text = said(caught(fail), capsys)

    assert text.index("KeyError\n") < text.index("which led to") < text.index("RetryableError: Kafka went away")
    assert CANARY not in text


def test_error_that_is_its_own_cause_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """I10: a report without an end would fail, and Python's own shows the message."""
    error = caught(lambda: int(CANARY))
    error.__cause__ = error
    text = said(error, capsys)

    assert text.count("ValueError\n") == 1
    assert CANARY not in text


@pytest.mark.parametrize("program", ["producer", "job", "command"])
def test_program_that_crashes_ends_with_code_1_and_without_the_message(
    program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise ValueError(CANARY)

    for each in (producer_program, job_program):  # what they set is of the whole process
        monkeypatch.setattr(each, "configure_logs", lambda *_: None)
        monkeypatch.setattr(each.signal, "signal", lambda *_: None)
    monkeypatch.setattr(Pipeline, "run", crash)
    monkeypatch.setattr(job_program, "preflight", crash)
    monkeypatch.setattr(settings, "effective", crash)
    monkeypatch.setenv("WALBRIDGE_POSTGRES__DSN", "dbname=d")
    monkeypatch.chdir(tmp_path)
    mains = {"producer": producer_program.main, "job": job_program.main, "command": command.main}

    assert mains[program](["config"] if program == "command" else []) == EXIT_BUG
    text = capsys.readouterr().err
    assert "error: a bug: ValueError" in text
    assert CANARY not in text


def test_panic_of_delta_rs_is_reported_as_any_bug(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """I10: to Python a panic is no Exception, and may quote a value too."""

    class Panic(BaseException):
        """As pyo3 makes it."""

    def panic(*_: object, **__: object) -> None:
        raise Panic(CANARY)

    monkeypatch.setattr(job_program, "configure_logs", lambda *_: None)
    monkeypatch.setattr(job_program, "_run", panic)
    monkeypatch.chdir(tmp_path)

    assert job_program.main([]) == EXIT_BUG
    assert CANARY not in capsys.readouterr().err
