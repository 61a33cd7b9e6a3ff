"""Names of labels that rows were encoded with: which progress may remember, and which are no label's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.producer.guards.doubts.labelled_rows import BEFORE, ENUM, LATER, LOOK, NOW, OLD, SAD, TABLE, Session
from walbridge.producer.encoding.label_texts import Use
from walbridge.producer.guards.doubts.columns.altered_types import new_label_facts, prints_differently
from walbridge.producer.postgres.facts import TableStorage
from walbridge.schemas.position import Lsn


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    return Session(monkeypatch)


def test_name_that_is_no_labels_any_more_is_a_doubt(session: Session) -> None:
    """I8: the label was renamed since, and nobody had seen it."""
    session.names |= {"later": 100}
    assert not session.bring("late")


def test_new_label_is_remembered_with_the_cut_that_its_row_is_in(session: Session) -> None:
    """I8: by that its next name shows, in the next session as in this one."""
    session.names |= {"late": 100}
    assert session.bring("late")
    assert session.known.labels == {SAD, OLD, f"{ENUM}-late", f"{ENUM}-by100"}
    renamed = replace(BEFORE, labels=BEFORE.labels | {f"{ENUM}-later", f"{ENUM}-by101"})
    assert prints_differently(session.known, renamed)


def test_catalogue_is_asked_only_of_names_that_were_not_met(session: Session) -> None:
    for _ in range(3):
        assert session.bring("sad")
    assert session.asked == 1
    assert session.known == BEFORE


def test_what_no_cut_told_is_asked_again_by_the_next_session(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """I8: after a kill its row is read again, and its label may have been renamed meanwhile."""
    session.names |= {"late": 100}
    assert session.bring("late")
    again = Session(monkeypatch)
    again.names |= {"later": 101}
    assert not again.bring("late")


@pytest.mark.parametrize(
    ("names", "wrote_before", "use", "expected"),
    [
        ({"late": 100}, {"late"}, LATER, True),
        ({"late": 100}, {"late"}, Use(90, Lsn(400)), True),
        ({"late": 100, "later": 99}, set(), LATER, True),
        ({"late": 100, "later": 99}, {"late"}, LATER, False),
        ({"late": 100, "later": 99}, set(), Use(90, Lsn(400)), False),
        ({"late": 100, "later": 100}, {"late"}, LATER, False),
        ({"late": 100, "later": 99}, set(), None, False),
    ],
    ids=[
        "no other label is new",
        "nor for who began before it",
        "by a transaction behind the label",
        "whose writer may have begun before",
        "by one before it",
        "both written by one transaction",
        "by none",
    ],
)
def test_name_may_have_been_another_new_labels(
    session: Session, names: dict[str, int], wrote_before: set[str], use: Use | None, *, expected: bool
) -> None:
    """I8: that label was called so, was renamed, and the name given to this one, before a look."""
    session.names |= names
    session.wrote_before |= wrote_before
    assert session.bring("late", use) is expected


@pytest.mark.parametrize(("first_lsn", "expected"), [(LOOK, True), (LOOK - 1, False)])
def test_name_that_a_look_found_is_that_labels_for_all_that_begin_behind_it(
    session: Session, first_lsn: int, *, expected: bool
) -> None:
    session.names |= {"late": 100, "later": 100}
    session.wrote_before |= {"late"}
    session.see(NOW)
    assert session.bring("late", Use(900, Lsn(first_lsn))) is expected


def test_name_that_progress_remembers_may_have_been_another_labels_for_who_was_open_before(session: Session) -> None:
    """I8: looks found both labels, each under the name in its time; the transaction used it before both."""
    session.names |= {"later": 101, "late": 102}
    both = replace(NOW, labels=NOW.labels | {f"{ENUM}-later", f"{ENUM}-by101", f"{ENUM}-by102"})
    session.see(both)
    session.pass_to(LOOK)
    session.become(both)
    assert session.bring("late", Use(103, LOOK))
    assert not session.bring("late", Use(90, Lsn(400)))


def test_name_of_each_transaction_that_brought_it_is_looked_up(session: Session) -> None:
    """I8: the one that brought it first is not the one that began first."""
    session.names |= {"late": 100, "later": 99}
    session.texts.use = lambda: LATER
    session.find(b"late")
    session.texts.begin_transaction(Lsn(300))
    assert not session.bring("late", Use(90, Lsn(300)))


def test_what_progress_remembers_at_the_start_was_so_before_what_the_session_brings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = replace(NOW, labels=NOW.labels | {f"{ENUM}-later"})
    session = Session(monkeypatch, known)
    session.names |= {"late": 100, "later": 100}
    session.wrote_before |= {"late"}
    session.see(known)
    done = session.tracker.progress.done
    assert session.bring("late", Use(90, done))
    assert not session.bring("late", Use(900, Lsn(done - 1)))


def test_label_that_was_renamed_and_got_its_name_back_has_had_it_since_the_last_look_alone(session: Session) -> None:
    """I8: another one may have had it between."""
    session.names |= {"late": 100, "later": 100}
    session.wrote_before |= {"late"}
    session.see(NOW)
    session.names |= {"late": 102}
    assert not session.bring("late", Use(900, LOOK))


def test_what_a_look_found_is_remembered_once_the_stream_has_passed_it(session: Session) -> None:
    """I8: until then a start finds the same."""
    assert session.see(NOW) == {TABLE}
    session.pass_to(Lsn(LOOK - 1))
    assert session.see(NOW) == {TABLE}
    session.pass_to(LOOK)
    assert session.see(NOW) == set()
    assert session.see(replace(NOW, labels=NOW.labels | {f"{ENUM}-latest"})) == {TABLE}


def test_label_that_is_remembered_meanwhile_is_no_news(session: Session) -> None:
    both = replace(NOW, labels=NOW.labels | {f"{ENUM}-latest"})
    session.see(both)
    session.pass_to(LOOK)
    session.names |= {"late": 100, "latest": 101}
    assert session.bring("late")
    assert session.see(both) == set()


@pytest.mark.parametrize(
    "storage",
    [TableStorage(()), replace(BEFORE, labels=frozenset({"7-a"})), replace(BEFORE, labels=frozenset())],
    ids=["never looked at", "of a type that is new to the table", "by earlier code"],
)
def test_nothing_is_asked_of_a_type_of_which_nothing_is_remembered(
    monkeypatch: pytest.MonkeyPatch, storage: TableStorage
) -> None:
    """It is compared with its column, or all of it is remembered next (``columns/altered_types.py``)."""
    session = Session(monkeypatch, storage)
    assert session.bring("late")
    assert session.known == storage


def test_type_that_is_gone_leaves_nothing_to_compare(session: Session) -> None:
    """Its column is gone as well."""
    session.names = {}
    assert session.bring("late")


def test_table_of_which_more_came_than_is_kept_is_a_doubt(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """I9"""
    monkeypatch.setattr("walbridge.producer.encoding.label_texts.TEXTS_MAX", 0)
    assert not session.bring("sad")


def test_table_that_progress_does_not_know_is_left_alone(session: Session) -> None:
    session.tracker.forget_table(TABLE)
    assert session.bring("late")


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (BEFORE, BEFORE),
        (BEFORE, replace(BEFORE, labels=BEFORE.labels | {"7-a"})),
        (replace(BEFORE, files=()), NOW),
        (replace(BEFORE, knows_labels=False), NOW),
    ],
    ids=["as it was", "of a type that is new to the table", "never looked at", "by earlier code"],
)
def test_nothing_is_noted_of_a_table_that_has_no_new_label(before: TableStorage, now: TableStorage) -> None:
    assert not new_label_facts(before, now)
