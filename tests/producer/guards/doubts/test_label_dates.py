"""Since when labels have their names: the first of the looks that found them so without a break, or all the time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from walbridge.producer.guards.doubts.label_dates import LabelDates
from walbridge.producer.postgres.storage.enum_labels import EnumLabel
from walbridge.schemas.position import Lsn

BEFORE_ALL = 0
LABEL = EnumLabel(100, 1000, "7-late", "7-by100")
FACTS = {"7-late", "7-by100", "7-sad", "7-by5"}
OLD = {"7-sad", "7-by5"}


class Looks:
    def __init__(self) -> None:
        self.dates, self.position, self.asked = LabelDates(), Lsn(100), 0

    def see(self, facts: set[str], known: set[str] | None = None) -> None:
        self.dates.see(facts, self._insert_lsn, known or (), Lsn(50))
        self.position = Lsn(self.position + 100)

    def _insert_lsn(self) -> Lsn:
        self.asked += 1
        return self.position

    def had_its_name(self, first_lsn: int, label: EnumLabel = LABEL, table: int = 1) -> bool:
        return self.dates.had_its_name(label, table, Lsn(first_lsn))


@pytest.fixture
def looks() -> Looks:
    return Looks()


def test_label_has_its_name_from_the_first_look_on_that_found_it(looks: Looks) -> None:
    for _ in range(3):
        looks.see(FACTS)
    assert (looks.had_its_name(99), looks.had_its_name(100)) == (False, True)
    assert looks.asked == 1


def test_label_that_a_look_did_not_find_has_its_name_since_the_look_after_that(looks: Looks) -> None:
    """I8"""
    for facts in (FACTS, OLD | {"7-later", "7-by101"}, FACTS):
        looks.see(facts)
    assert (looks.had_its_name(299), looks.had_its_name(300)) == (False, True)


def test_label_that_another_transaction_wrote_since_has_it_since_then(looks: Looks) -> None:
    """I8: it may have had another name between."""
    looks.see(FACTS)
    looks.see(FACTS - {"7-by100"} | {"7-by102"})
    renamed = EnumLabel(102, 1000, "7-late", "7-by102")
    assert (looks.had_its_name(199, renamed), looks.had_its_name(200, renamed)) == (False, True)


def test_what_progress_remembered_at_the_start_holds_since_what_it_ends_with(looks: Looks) -> None:
    looks.see(FACTS, known=FACTS)
    assert (looks.had_its_name(49), looks.had_its_name(50)) == (False, True)
    assert looks.asked == 0


def test_what_progress_remembers_later_tells_no_position(looks: Looks) -> None:
    looks.see(OLD)
    looks.see(FACTS, known=FACTS)
    assert (looks.had_its_name(199), looks.had_its_name(200)) == (False, True)


@pytest.mark.parametrize("label", [replace(LABEL, is_old=True), replace(LABEL, is_as_made=True)])
def test_label_that_is_older_than_the_stream_or_as_its_type_was_made_needs_no_look(
    looks: Looks, label: EnumLabel
) -> None:
    assert looks.had_its_name(BEFORE_ALL, label)
    assert not looks.had_its_name(900)


def test_label_that_is_older_than_a_tables_columns_had_its_name_in_all_rows_of_that_table(looks: Looks) -> None:
    """I8: another table may have had the type before."""
    looks.dates.note_older(1, {"7-late", "7-by100"})
    looks.dates.note_older(1, {"8-x", "8-by100"})
    assert looks.had_its_name(BEFORE_ALL)
    assert not looks.had_its_name(900, table=2)


def test_label_that_was_written_again_since_is_no_older_than_the_columns(looks: Looks) -> None:
    """I8: renamed, and named back; another one may have had the name between."""
    looks.dates.note_older(1, {"7-late", "7-by100"})
    assert not looks.had_its_name(900, EnumLabel(102, 1000, "7-late", "7-by102"))
