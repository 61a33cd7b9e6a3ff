"""What ``walbridge verify --every`` says of itself."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from walbridge.quantities import duration_s
from walbridge.schemas.errors import OperatorError, WalbridgeError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Metrics
from walbridge.verify import service
from walbridge.verify.errors import NotPublished, TableNotCompared
from walbridge.verify.metrics import (
    EQUAL,
    NOT_COMPARED,
    NOT_CURRENT,
    UNDECIDED,
    UNEQUAL,
    VerifyMetrics,
    result_of,
    tables_by_result,
)
from walbridge.verify.report import TableResult
from walbridge.verify.service import RETRY_S, Service


def service_of(*tables: str) -> tuple[Service, VerifyMetrics]:
    metrics = VerifyMetrics("p", 3600, 300)
    return Service(Settings(name="p"), 3600, tables or None, 1.0, metrics, threading.Event()), metrics


def table(state: str = "current", *, whole: bool = True, different: int = 0) -> TableResult:
    result = TableResult("public.t", state, 1, rows=5, whole=whole)
    result.counts["different"] = different
    return result


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (table(), EQUAL),
        (table(different=1), UNEQUAL),
        (table(different=1, whole=False), UNEQUAL),
        (table(whole=False), UNDECIDED),
        (table("stale since 0/1", different=1), NOT_CURRENT),
    ],
)
def test_only_what_is_proved_of_a_current_table_makes_it_unequal(result: TableResult, expected: str) -> None:
    assert result_of(result) == expected


def test_run_is_told_in_one_line_with_a_few_names() -> None:
    results = dict.fromkeys("fedcba", EQUAL) | dict.fromkeys("zyxw", UNEQUAL) | {"s": NOT_CURRENT}

    assert tables_by_result(results) == "6 of 11 tables equal; unequal: w, x, y and 1 more; not current: s"


def test_run_that_ended_early_leaves_the_results_before_it_and_the_age_of_the_last_whole_one() -> None:
    metrics = VerifyMetrics("p", 3600, 300)
    metrics.found(table(different=2))
    metrics.run_ended(["public.t"])
    metrics.run_failed("Postgres is away")

    value = metrics.registry.get_sample_value
    assert value("walbridge_verify_tables", {"pipeline": "p", "result": UNEQUAL}) == 1
    assert value("walbridge_verify_unequal_tables_total", {"pipeline": "p"}) == 1
    assert value("walbridge_verify_failures_total", {"pipeline": "p"}) == 1
    assert "0 of 1 tables equal; unequal: public.t" in metrics.summary
    assert "ended early: Postgres is away; last difference: public.t, at 2" in metrics.summary


def test_difference_is_told_with_its_time_also_after_runs_that_found_none() -> None:
    """The alert fires for a day, while the table is equal again after some minutes."""
    metrics = VerifyMetrics("p", 3600, 300)
    for each in (table(different=2), table(), table()):
        metrics.found(each)
        metrics.run_ended(["public.t"])

    assert "1 of 1 tables equal; last difference: public.t, at 2" in metrics.summary


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("1h", 3600), ("2d", 172_800)])
def test_duration_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "1", "1.5h", "-1h", "0s", "1w", "1 h", "²h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="as in 1h"):
        duration_s(text)


@pytest.fixture(autouse=True)
def followed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Other publications than the settings name, that the producer follows by now."""
    names = list[str]()
    monkeypatch.setattr(service, "others_followed", lambda _: names)
    return names


def test_table_that_differs_while_the_producer_follows_other_publications_is_not_called_so(
    monkeypatch: pytest.MonkeyPatch, followed: list[str]
) -> None:
    """They may tell other rows and columns of it than those that it is compared with."""
    followed.append("before")
    there, metrics = service_of()
    monkeypatch.setattr(service, "compare_on", lambda *_: [table(different=3)])

    there._compare(None, "public.t")  # type: ignore[arg-type]  # nobody asks it

    value = metrics.registry.get_sample_value
    assert value("walbridge_verify_unequal_tables_total", {"pipeline": "p"}) == 0
    metrics.run_ended(["public.t"])
    assert value("walbridge_verify_tables", {"pipeline": "p", "result": UNDECIDED}) == 1


def test_difference_is_counted_and_logged_also_where_the_producer_cannot_be_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else an alert would depend on a right of Kafka's."""
    monkeypatch.setattr(service, "keep", lambda *_: "a file")
    there, metrics = service_of()
    monkeypatch.setattr(service, "compare_on", lambda *_: [table(different=3)])

    def refuse(*_: object) -> None:
        raise OperatorError("topic p.progress may not be written", remedy="let it")

    monkeypatch.setattr(service, "write", refuse)

    with pytest.raises(OperatorError):
        there._compare(None, "public.t")  # type: ignore[arg-type]  # nobody asks it

    assert metrics.registry.get_sample_value("walbridge_verify_unequal_tables_total", {"pipeline": "p"}) == 1


@dataclass
class Answers:
    """A server that publishes tables, and what comes of comparing each, by name."""

    tables: dict[str, WalbridgeError | TableResult]
    asked: list[str] = field(default_factory=list)
    published: list[str] | None = None

    def compared(self, connection: None, settings: Settings, names: list[str], *_: object) -> list[TableResult]:
        self.asked += names
        answer = self.tables[names[0]]
        if isinstance(answer, WalbridgeError):
            raise answer
        return [answer]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    there = Answers({})
    monkeypatch.setattr(service, "dsn_of", lambda _: "dbname=d")
    monkeypatch.setattr(service, "connected", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(
        service, "Source", lambda _: SimpleNamespace(names=lambda _: there.published or list(there.tables))
    )
    monkeypatch.setattr(service, "compare_on", there.compared)
    return there


def equal(name: str) -> TableResult:
    return TableResult(name, "current", 1)


def test_tables_behind_one_that_cannot_be_read_are_compared_and_status_says_which_and_why(answers: Answers) -> None:
    there, metrics = service_of()
    answers.tables = {
        "public.a": equal("public.a"),
        "public.b": TableNotCompared("permission denied for table b", remedy="grant it"),
        "public.c": equal("public.c"),
        "public.d": NotPublished("publication p does not publish a table public.d", remedy="name others"),
        "public.e": equal("public.e"),
    }

    assert there._compare_all()

    assert answers.asked == list(answers.tables)
    assert "3 of 5 tables equal; not current: public.d; not compared: public.b; public.b: permission denied" in (
        metrics.summary
    )
    assert metrics.registry.get_sample_value("walbridge_verify_tables", {"pipeline": "p", "result": NOT_COMPARED}) == 1


def test_run_with_a_table_that_could_not_be_compared_is_no_whole_one(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else no alert would tell of a table that is never compared."""
    there, metrics = service_of()
    began_s = time.monotonic()
    monkeypatch.setattr("walbridge.verify.metrics.time", SimpleNamespace(monotonic=lambda: began_s + 1000))
    answers.tables = {"public.a": TableNotCompared("its folder is gone", remedy="copy it")}
    there._compare_all()

    def age_s() -> float:
        return metrics.registry.get_sample_value("walbridge_verify_whole_run_age_seconds", {"pipeline": "p"}) or 0.0

    assert age_s() > 900

    answers.tables = {"public.a": equal("public.a")}
    there._compare_all()
    assert age_s() == 0


def test_table_that_was_named_and_is_not_published_does_not_keep_the_others_from_being_compared(
    answers: Answers,
) -> None:
    there, metrics = service_of("b", "typo")
    answers.tables = {
        "public.b": equal("public.b"),
        "typo": NotPublished("publication p does not publish a table typo", remedy="name others"),
    }
    answers.published = ["public.b"]

    assert there._compare_all()
    assert "1 of 2 tables equal; not compared: typo; typo: publication p does not publish" in metrics.summary


def test_server_that_is_away_ends_the_run(answers: Answers) -> None:
    there, metrics = service_of()
    answers.tables = {"public.a": OperatorError("Postgres could not be read", remedy="x"), "public.b": equal("b")}

    assert not there._compare_all()
    assert answers.asked == ["public.a"]
    assert metrics.summary.endswith("ended early: Postgres could not be read")


def test_run_behind_one_that_ended_early_begins_with_the_tables_that_had_no_turn(answers: Answers) -> None:
    there, metrics = service_of()
    away = OperatorError("Postgres could not be read", remedy="x")
    answers.tables = {"public.a": equal("public.a"), "public.b": away, "public.c": equal("public.c")}
    assert not there._compare_all()
    answers.tables["public.b"] = equal("public.b")

    assert there._compare_all()
    assert there._compare_all()

    assert "".join(each[-1] for each in answers.asked) == "ab" + "cab" + "abc"
    assert "3 of 3 tables equal" in metrics.summary


def test_rest_after_a_run_that_ended_early_counts_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    there, _ = service_of()
    clock, rests = [0.0], list[float]()

    def run_of_an_hour() -> bool:
        clock[0] += 3600
        return False

    def rest(until_s: float) -> None:
        rests.append(until_s - clock[0])
        there._is_over.set()

    monkeypatch.setattr(service, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(there, "_compare_all", run_of_an_hour)
    monkeypatch.setattr(there, "_pause", rest)
    there._run()

    assert rests == [RETRY_S]


def test_keys_that_differ_are_kept_in_a_file_of_this_user_alone_and_in_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once the table is stale, and copied again, nobody could find them any more; they are row values (I10)."""
    settings = Settings(name="p", metrics=Metrics(state_dir=str(tmp_path / "state")))
    there = Service(settings, 3600, None, 1.0, VerifyMetrics("p", 3600, 300), threading.Event())
    found = TableResult("public.t", "current", 1, relation_id=4711)
    found.add("missing", "id=42", 1)
    monkeypatch.setattr(service, "compare_on", lambda *_: [found])
    monkeypatch.setattr(service, "write", lambda *_: 0)

    there._compare(None, "public.t")  # type: ignore[arg-type]  # nobody asks it

    file = tmp_path / "state" / "p-differs-4711.json"
    kept = json.loads(file.read_text())
    assert (kept["table"], kept["missing"], kept["keys"]["missing"]) == ("public.t", 1, ["id=42"])
    assert file.stat().st_mode & 0o077 == 0
    logged = capsys.readouterr()
    assert str(file) in logged.out + logged.err
    assert "id=42" not in logged.out + logged.err


def test_difference_is_told_also_where_its_keys_cannot_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state").write_text("no folder")
    settings = Settings(name="p", metrics=Metrics(state_dir=str(tmp_path / "state")))
    there, told = Service(settings, 3600, None, 1.0, VerifyMetrics("p", 3600, 300), threading.Event()), list[object]()
    monkeypatch.setattr(service, "compare_on", lambda *_: [table(different=3)])
    monkeypatch.setattr(service, "write", lambda _, requests: told.extend(requests))

    there._compare(None, "public.t")  # type: ignore[arg-type]  # nobody asks it

    assert len(told) == 1
