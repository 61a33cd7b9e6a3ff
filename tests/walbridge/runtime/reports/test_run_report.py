"""A program's record of itself: written beside what it does, and never in its way."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.wait import wait_until
from walbridge.runtime.reports import run_report
from walbridge.runtime.reports.local_end import LocalEnd
from walbridge.runtime.reports.run_report import RunReport
from walbridge.schemas.control.run_record import END, JOB, RUN, End, How, Run
from walbridge.schemas.errors import OperatorError, RetryableError, Superseded
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Metrics


class Kept:
    """A place in memory; ``away``: it does not answer; ``hangs``: not even that."""

    def __init__(self) -> None:
        self.records: dict[str, Run] = {}
        self.written = 0
        self.away = False
        self.hangs = threading.Event()
        self.hangs.set()

    def read(self) -> tuple[Run | None, Run | None]:
        self._answer()
        return self.records.get(RUN), self.records.get(END)

    def write(self, records: Mapping[str, Run]) -> None:
        self._answer()
        self.records |= records
        self.written += 1

    def _answer(self) -> None:
        self.hangs.wait()
        if self.away:
            raise RetryableError("nobody is there")


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    monkeypatch.setattr(run_report, "END_S", 0.5)
    place = Kept()
    yield place
    place.hangs.set()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(name="p", metrics=Metrics(state_dir=str(tmp_path / "state")))


def made(settings: Settings, place: Kept) -> RunReport:
    return RunReport(settings, JOB, place, lambda: "running")


def left(settings: Settings) -> Run | None:
    return LocalEnd(settings, JOB).read()


def run_and_fail(report: RunReport, error: BaseException | None, *, begins: bool = True) -> None:
    """As a program does: what it raised leaves the block as it was."""
    with nullcontext() if error is None else pytest.raises(type(error)) as raised, report:
        if begins:
            report.begin()
        if error is not None:
            raise error
    assert raised is None or raised.value is error


def test_running_program_renews_its_record(settings: Settings, place: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_report, "RENEW_S", 0.01)
    with made(settings, place) as report:
        report.begin()
        wait_until(lambda: place.written > 2, "the record to be renewed")
        run = place.records[RUN]
        assert (run.program, run.pipeline, run.state, run.end) == (JOB, "p", "running", None)
        assert run.seen > run.since


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (None, (How.STOPPED, 0, None, None)),
        (OperatorError("the slot is lost", "copy it"), (How.REFUSED, 2, "the slot is lost", "copy it")),
        (SystemExit(130), (How.STOPPED, 130, None, None)),
        (KeyboardInterrupt(), (How.STOPPED, 130, None, None)),
    ],
    ids=["stopped", "refused", "Ctrl-C twice", "Ctrl-C"],
)
def test_end_tells_what_ended_the_program(
    settings: Settings, place: Kept, error: BaseException | None, end: tuple[object, ...]
) -> None:
    run_and_fail(made(settings, place), error)

    for record in (place.records[RUN], place.records[END]):
        assert record.end is not None
        assert (record.end.how, record.end.exit_code, record.end.what, record.end.remedy) == end
    assert left(settings) is None


def test_bug_is_told_by_its_place_and_not_by_its_words(settings: Settings, place: Kept) -> None:
    """I10: a library's message may quote a row."""
    run_and_fail(made(settings, place), ValueError("canary-of-a-row"))

    end = place.records[END].end
    assert end is not None
    assert (end.how, end.exit_code) == (How.BUG, 1)
    assert "ValueError in runtime/reports/test_run_report.py" in (end.what or "")
    assert "canary" not in f"{end}"


def test_start_that_is_refused_does_not_take_the_place_of_the_program_that_runs(
    settings: Settings, place: Kept
) -> None:
    run_and_fail(made(settings, place), OperatorError("a wrong password", "mend it"), begins=False)

    assert place.records.keys() == {END}


def test_program_whose_place_was_taken_does_not_speak_for_the_other(settings: Settings, place: Kept) -> None:
    report = made(settings, place)
    report.begin()
    wait_until(lambda: RUN in place.records, "the first record")
    place.records[RUN] = other = replace(place.records[RUN], run_id="other")

    run_and_fail(report, Superseded("another one took over", "stop one"))

    assert place.records[RUN] == other
    assert place.records[END].run_id != "other"


def test_end_is_left_on_the_machine_while_the_peer_is_away_and_told_at_the_next_start(
    settings: Settings, place: Kept
) -> None:
    place.away = True
    run_and_fail(made(settings, place), OperatorError("the disk is full", "make room"))
    ended = left(settings)
    assert ended is not None
    assert ended.end is not None
    assert ended.end.what == "the disk is full"

    place.away = False
    with made(settings, place) as report:
        report.begin()
        wait_until(lambda: END in place.records, "the end of the last run to be told")
        assert place.records[END] == ended
        wait_until(lambda: left(settings) is None, "the file to go")


def test_end_that_is_older_than_what_the_peer_knows_is_forgotten(settings: Settings, place: Kept) -> None:
    """Else each start would tell it again."""
    place.away = True
    run_and_fail(made(settings, place), OperatorError("the disk is full", "make room"))
    ended = left(settings)
    assert ended is not None
    place.away = False
    place.records[END] = newer = replace(ended, run_id="2").ended(End(datetime.now(UTC), How.STOPPED, 0))
    with made(settings, place) as report:
        report.begin()
        wait_until(lambda: left(settings) is None, "the file to go")
        assert place.records[END] == newer


def test_peer_that_hangs_delays_the_end_by_its_limit_alone_and_hides_no_error(settings: Settings, place: Kept) -> None:
    place.hangs.clear()
    began = time.monotonic()

    run_and_fail(made(settings, place), OperatorError("the disk is full", "make room"))

    assert time.monotonic() - began < 5
    assert left(settings) is not None


def test_end_that_is_not_told_in_time_is_said_at_once_and_never_again(
    settings: Settings, place: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    report = made(settings, place)
    place.hangs.clear()
    run_and_fail(report, None)
    assert capsys.readouterr().out.count("its end is not recorded but on this machine") == 1

    place.away = True
    place.hangs.set()
    for late in [each for each in threading.enumerate() if each.name == "run report"]:
        late.join(10)
    assert capsys.readouterr().out == ""


def test_run_without_an_end_is_told_by_the_next_one(settings: Settings, place: Kept) -> None:
    """It was killed."""
    killed = Run(JOB, "p", "1", "0", "elsewhere", 7, "", datetime.now(UTC), datetime.now(UTC), "running")
    place.records[RUN] = killed

    with made(settings, place) as report:
        report.begin()
        wait_until(lambda: END in place.records, "the end to be told")

    # The second one's own end came after it.
    assert place.records[RUN].run_id != "1"


def test_end_without_a_word_says_when_it_was_heard_of_last(settings: Settings, place: Kept) -> None:
    seen = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    place.records[RUN] = Run(JOB, "p", "1", "0", "elsewhere", 7, "", seen, seen, "running")
    with made(settings, place) as report:
        report.begin()
        wait_until(lambda: END in place.records, "the end to be told")
        end = place.records[END].end

    assert end == End(seen, How.UNSAID, None, end.what if end else None, end.remedy if end else None)
    assert "process 7 on elsewhere was last heard of at 2026-01-02 03:04:05 UTC" in f"{end}"


def test_folder_that_cannot_be_written_stops_nobody(settings: Settings, place: Kept, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    place.away = True

    run_and_fail(made(settings, place), OperatorError("the disk is full", "make room"))

    assert left(settings) is None
