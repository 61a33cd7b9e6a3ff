"""What ``walbridge verify --every`` says of itself."""

from __future__ import annotations

import threading

import pytest

from walbridge.quantities import duration_s
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.verify import service
from walbridge.verify.metrics import EQUAL, NOT_CURRENT, UNDECIDED, UNEQUAL, VerifyMetrics, result_of, told_tables
from walbridge.verify.report import TableResult
from walbridge.verify.service import Service


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

    assert told_tables(results) == "6 of 11 tables equal; unequal: w, x, y and 1 more; not current: s"


def test_run_that_ended_early_leaves_the_results_before_it_and_the_age_of_the_last_whole_one() -> None:
    metrics = VerifyMetrics("p", 3600, 300)
    metrics.found(table(different=2))
    metrics.run_ended(["public.t"])
    metrics.run_failed("Postgres is away")

    value = metrics.registry.get_sample_value
    assert value("walbridge_verify_tables", {"pipeline": "p", "result": UNEQUAL}) == 1
    assert value("walbridge_verify_unequal_tables_total", {"pipeline": "p"}) == 1
    assert value("walbridge_verify_failures_total", {"pipeline": "p"}) == 1
    assert "0 of 1 tables equal; unequal: public.t" in metrics.told
    assert metrics.told.endswith("ended early: Postgres is away")


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("1h", 3600), ("2d", 172_800)])
def test_duration_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "1", "1.5h", "-1h", "0s", "1w", "1 h", "²h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="as in 1h"):
        duration_s(text)


def test_difference_is_counted_and_logged_also_where_the_producer_cannot_be_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else an alert would depend on a right of Kafka's."""
    metrics = VerifyMetrics("p", 3600, 300)
    there = Service(Settings(name="p"), 3600, None, 1.0, metrics, threading.Event())
    monkeypatch.setattr(service, "compare_on", lambda *_: [table(different=3)])

    def refuse(*_: object) -> None:
        raise OperatorError("topic p.progress may not be written", remedy="let it")

    monkeypatch.setattr(service, "write", refuse)

    with pytest.raises(OperatorError):
        there._compare(None, "public.t")  # type: ignore[arg-type]  # nobody asks it

    assert metrics.registry.get_sample_value("walbridge_verify_unequal_tables_total", {"pipeline": "p"}) == 1
