"""What status and check say of a program that runs, ended, or was killed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.walbridge.status.test_pipeline_status import status
from walbridge.check import steps
from walbridge.check.finding import Severity
from walbridge.check.programs import program_findings
from walbridge.check.reached import Reached
from walbridge.producer.postgres.facts import SlotState
from walbridge.producer.postgres.slots.slot_row import Slot, Source
from walbridge.schemas.control.run_record import NEVER_RAN, End, How, LastWords, Run
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings
from walbridge.status import read_status as read_status_module
from walbridge.status.json_object import as_json
from walbridge.status.pipeline_status import Silent
from walbridge.status.show import as_table, as_text
from walbridge.status.words import word_lines

AT = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
NOW = AT + timedelta(seconds=200)
RUN = Run("producer", "p", "1", "0.1.0", "db-host", 7, "boot/ns/7/99", AT, AT, "streaming")
LOST = replace(RUN, run_id="0").ended(End(AT, How.REFUSED, 2, "slot s\nis lost", "walbridge copy --all"))
STOPPED = RUN.ended(End(AT, How.STOPPED, 0))
CRASHED = RUN.ended(End(AT, How.BUG, 1, "a bug: ValueError in a/b.py, line 1, f", "start again"))
UNSAID = RUN.ended(End(AT, How.UNSAID, None, "it was killed", "look for what killed it"))
RUNS = "runs since 2026-01-31 12:00:00Z: process 7 on db-host, version 0.1.0, streaming"
FAILED = "ended with an error at 2026-01-31 12:00:00Z (3 min 20 s ago): process 7 on db-host: slot s is lost"
SILENT = "ended without a word, last heard of at 2026-01-31 12:00:00Z (3 min 20 s ago): process 7 on db-host"


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (NEVER_RAN, []),
        (LastWords(RUN, None, is_running=True), [RUNS]),
        (LastWords(RUN, STOPPED, is_running=True), [RUNS]),
        (LastWords(RUN, LOST, is_running=True), [RUNS, f"the last one {FAILED}", "remedy: walbridge copy --all"]),
        (LastWords(RUN, LOST), [SILENT]),
        (LastWords(LOST, LOST), [FAILED, "remedy: walbridge copy --all"]),
        (LastWords(None, LOST), [FAILED, "remedy: walbridge copy --all"]),
        (
            LastWords(STOPPED, STOPPED),
            ["was stopped at 2026-01-31 12:00:00Z (3 min 20 s ago): process 7 on db-host"],
        ),
        (
            LastWords(CRASHED, CRASHED),
            [
                FAILED.replace("an error", "a bug").replace("slot s is lost", "a bug: ValueError in a/b.py, line 1, f"),
                "remedy: start again",
            ],
        ),
        (
            LastWords(RUN, UNSAID, is_running=True),
            [RUNS, f"the last one {SILENT}", "remedy: look for what killed it"],
        ),
    ],
    ids=["never", "runs", "runs again", "mended", "killed", "failed", "refused", "stopped", "bug", "killed before"],
)
def test_words_say_whether_it_runs_and_how_it_ended(words: LastWords, lines: list[str]) -> None:
    assert list(word_lines(words, NOW)) == lines


def test_end_that_is_old_is_not_told_of_a_program_that_runs() -> None:
    assert list(word_lines(LastWords(RUN, LOST, is_running=True), NOW + timedelta(days=2))) == [RUNS]


def test_start_that_was_refused_after_a_kill_is_what_is_told() -> None:
    later = replace(LOST, end=replace(LOST.end, at=AT + timedelta(seconds=60)) if LOST.end else None)
    assert next(word_lines(LastWords(RUN, later), NOW)).startswith("ended with an error at 2026-01-31 12:01:00Z")


def test_check_names_the_refusal_after_a_kill_and_what_mends_it() -> None:
    stopped = replace(STOPPED, run_id="2", end=End(AT + timedelta(seconds=60), How.STOPPED, 0))
    refused = replace(
        LOST, end=End(AT + timedelta(seconds=60), How.REFUSED, 2, "slot s is lost", "walbridge copy --all")
    )

    (found,) = program_findings("produce", LastWords(RUN, refused), NOW)
    (off,) = program_findings("produce", LastWords(RUN, stopped), NOW)

    assert found.remedy == "walbridge copy --all; then walbridge produce"
    assert (off.severity, off.remedy) == (Severity.ADVICE, "walbridge produce")


def test_status_shows_both_programs_and_one_that_ended_in_red() -> None:
    there = replace(status(), producer=LastWords(RUN, None, is_running=True), job=LastWords(LOST, LOST), at=NOW)

    text = as_text(there).splitlines()
    headings, texts = as_table(there).columns

    assert f"{'':<13}{RUNS}" in text
    assert f"{'job':<13}{FAILED}" in text
    rows = zip(headings.cells, texts.cells, strict=True)
    assert [str(heading) for heading, cell in rows if getattr(cell, "style", "") == "red"] == ["slot", "job"]
    assert as_json(there)["programs"]["producer"]["running"] is True
    end = as_json(there)["programs"]["job"]["last_end"]["end"]
    assert (end["how"], end["exit_code"], end["remedy"]) == ("error", 2, "walbridge copy --all")


def test_status_shows_what_verifies_the_lake_again_and_again_only_where_it_ever_ran() -> None:
    run = replace(RUN, program="verify", state="resting; at 2026-01-31 12:00Z: 7 of 7 tables equal")
    there = replace(status(), verifier=LastWords(run, None, is_running=True))

    assert any(line.startswith("verify       runs since") and "7 of 7" in line for line in as_text(there).splitlines())
    assert "verify" not in as_text(status())
    assert as_json(status())["programs"]["verify"]["running"] is None


@pytest.mark.parametrize(
    ("words", "severity", "remedy"),
    [
        (LastWords(RUN, None, is_running=True), Severity.OK, None),
        (LastWords(STOPPED, STOPPED), Severity.ADVICE, "walbridge produce"),
        (LastWords(RUN, LOST), Severity.WARNING, "walbridge produce"),
        (LastWords(LOST, LOST), Severity.WARNING, "walbridge copy --all; then walbridge produce"),
    ],
    ids=["runs", "stopped", "killed", "failed"],
)
def test_check_says_that_a_program_does_not_run_and_what_starts_it(
    words: LastWords, severity: Severity, remedy: str | None
) -> None:
    (found,) = program_findings("produce", words, NOW)

    assert (found.severity, found.remedy) == (severity, remedy)
    assert found.text.startswith("walbridge produce ")


def test_check_says_nothing_of_a_program_that_never_ran() -> None:
    assert not list(program_findings("produce", NEVER_RAN, NOW))


@pytest.mark.parametrize(("active_pid", "is_running"), [(77, True), (None, False)])
def test_producer_whose_slot_is_in_use_runs_for_status_and_check_however_old_its_record(
    active_pid: int | None, is_running: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = Slot(active_pid, "reserved", 0, None, 1)
    sections = {"postgres": {"dsn": "host=h"}, "kafka": {"bootstrap_servers": "h:1"}, "lake": {"path": "/l"}}
    settings = Settings.model_validate({"name": "p"} | sections)
    silent = Silent("it is not asked")
    for name, told in {
        "source_of": Source("18.1", 5, NOW, slot),
        "published_of": silent,
        "_lake": silent,
        "job_words": NEVER_RAN,
        "verifier_words": NEVER_RAN,
        "producer_words": LastWords(RUN),
    }.items():
        monkeypatch.setattr(read_status_module, name, lambda _, told=told: told)
    monkeypatch.setattr(steps, "producer_words", lambda _: LastWords(RUN))
    reached = Reached(settings, slot_state=SlotState("pgoutput", "d", active_pid, "reserved", Lsn(1), False), counts={})

    (found,) = steps._producer(reached)

    there = read_status_module.read_status(settings)
    assert (isinstance(there.producer, LastWords) and there.producer.is_running) is is_running
    assert (found.severity is Severity.OK) is is_running
