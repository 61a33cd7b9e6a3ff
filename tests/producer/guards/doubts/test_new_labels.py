"""Names of labels that rows were encoded with: which progress may remember, and which are no label's."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from tests.producer.kept import CONNECTION
from tests.producer.streaming_progress import STREAMING
from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.encoding.label_texts import FirstUse, LabelTexts
from walbridge.producer.guards.doubts import new_labels
from walbridge.producer.guards.doubts.columns.altered_types import new_label_facts, prints_differently
from walbridge.producer.guards.doubts.new_labels import NewLabels
from walbridge.producer.guards.doubts.rewrites import as_text, from_text
from walbridge.producer.postgres.facts import TableFile, TableStorage
from walbridge.producer.postgres.storage.enum_labels import EnumLabel
from walbridge.producer.relations.session_writers import SessionWriters
from walbridge.schemas.control.table_progress import CURRENT, TableProgress
from walbridge.schemas.pg_types import TypeFacts, column_type
from walbridge.schemas.position import Lsn
from walbridge.schemas.table_schema import Column, TableSchema

TABLE, ENUM = 16_400, 600_001
TYPES = {ENUM: TypeFacts(ENUM, "public", "mood", "e")}
SAD, OLD = f"{ENUM}-sad", f"{ENUM}-by5"
BEFORE = TableStorage((TableFile(TABLE, TABLE, 0, 2),), frozenset({SAD, OLD}))
NOW = replace(BEFORE, labels=BEFORE.labels | {f"{ENUM}-late"})
LOOK = Lsn(500)
LATER = FirstUse(900, Lsn(400))
"""Of a transaction that began behind the one that wrote the newest label, and committed before the look."""


def label(name: str, xid: int) -> EnumLabel:
    return EnumLabel(xid, 1000, f"{ENUM}-{name}", f"{ENUM}-by{xid}")


class Session(NewLabels):
    """Rows of one table; ``names``: what the catalogue says of its enum."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, storage: TableStorage = BEFORE) -> None:
        table = TableProgress(TABLE, CURRENT, storage=as_text(storage))
        self.tracker = ProgressTracker(replace(STREAMING, tables={TABLE: table}))
        self.texts = LabelTexts(TYPES.get)
        writers = cast(SessionWriters, SimpleNamespace(label_texts=self.texts))
        super().__init__(CONNECTION, self.tracker, writers, lambda: LOOK)
        self.names: dict[str, int] = {"sad": 5}
        self.asked = 0

        def enum_labels(*_: object) -> dict[int, dict[bytes, EnumLabel]]:
            self.asked += 1
            return {ENUM: {name.encode(): label(name, xid) for name, xid in self.names.items()}} if self.names else {}

        monkeypatch.setattr(new_labels, "enum_labels", enum_labels)
        column = Column("e", ENUM, "mood", -1, column_type(ENUM, -1, TYPES))
        columns = self.texts.columns_of(TableSchema(TABLE, "public", "t", "d", (column,)))
        assert columns is not None
        assert columns[0] is not None
        self.find = columns[0].find

    def bring(self, text: str, use: FirstUse | None = LATER) -> bool:
        """Whether a row with this label is explained."""
        self.texts.first_use = lambda: use
        self.find(text.encode())
        return not self.look_up()

    def see(self, now: TableStorage) -> set[int]:
        return self.compare({TABLE: self.known}, {TABLE: now})

    @property
    def known(self) -> TableStorage:
        return from_text(self.tracker.progress.tables[TABLE].storage or "")


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
    ("names", "use", "expected"),
    [
        ({"late": 100}, LATER, True),
        ({"late": 100}, FirstUse(90, Lsn(400)), True),
        ({"late": 100, "later": 99}, LATER, True),
        ({"late": 100, "later": 99}, FirstUse(90, Lsn(400)), False),
        ({"late": 100, "later": 100}, LATER, False),
        ({"late": 100, "later": 99}, None, False),
    ],
    ids=[
        "no other label is new",
        "nor for who began before it",
        "by a transaction behind the label",
        "by one before it",
        "both written by one transaction",
        "by none",
    ],
)
def test_name_may_have_been_another_new_labels(
    session: Session, names: dict[str, int], use: FirstUse | None, *, expected: bool
) -> None:
    """I8: that label was called so, was renamed, and the name given to this one, before a look."""
    session.names |= names
    assert session.bring("late", use) is expected


@pytest.mark.parametrize(("commit_lsn", "expected"), [(LOOK, True), (LOOK - 1, False)])
def test_name_that_a_look_found_is_that_labels_for_all_that_commits_behind_it(
    session: Session, commit_lsn: int, *, expected: bool
) -> None:
    session.names |= {"late": 100, "later": 100}
    session.see(NOW)
    assert session.bring("late", FirstUse(900, Lsn(commit_lsn))) is expected


def test_name_that_a_look_found_is_certain_once_the_stream_has_passed_it(session: Session) -> None:
    session.names |= {"late": 100, "later": 100}
    session.see(NOW)
    session.pass_to(LOOK)
    assert session.bring("late", None)


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
