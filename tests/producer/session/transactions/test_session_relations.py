"""Which version of a table a change is read by, whatever came between its announcement and its commit."""

from __future__ import annotations

from tests.producer.kept import INT4, ORDERS, relation
from walbridge.producer.pgoutput.messages import Relation, RelationColumn
from walbridge.producer.session.transactions.session_relations import SessionRelations

OLD = relation()
NEW = relation(ORDERS, RelationColumn(False, "more", INT4, -1))


class Tables:
    """What was installed, and which tables were said to be due."""

    def __init__(self) -> None:
        self.installed: list[Relation] = []
        self.due: list[int] = []
        self.announced = SessionRelations(self.installed.append, self.due.append)

    def change(self) -> Relation:
        """The version by which a change of it would be read now."""
        self.announced.install_due(ORDERS)
        return self.installed[-1]


def test_relation_of_an_ordinary_transaction_is_installed_at_once_and_again() -> None:
    """The catalogue may say more by now."""
    tables = Tables()
    tables.announced.receive(OLD)
    tables.announced.receive(OLD)

    assert tables.installed == [OLD, OLD]


def test_relation_of_a_replayed_transaction_waits_for_its_change() -> None:
    tables = Tables()
    tables.announced.receive(OLD)
    tables.announced.show(NEW, None)

    assert (tables.installed, tables.due) == ([OLD], [ORDERS])
    assert tables.change() == NEW


def test_after_a_replay_a_change_is_read_by_what_was_known_before_it() -> None:
    """A streamed block's own announcement counts for the session only with its commit."""
    tables = Tables()
    tables.announced.receive(OLD)
    tables.announced.show(NEW, None)
    tables.change()
    tables.announced.end_replay()

    assert tables.change() == OLD


def test_replay_without_a_change_leaves_the_table_as_it_was() -> None:
    tables = Tables()
    tables.announced.receive(OLD)
    tables.announced.show(NEW, None)
    tables.announced.end_replay()
    tables.change()

    assert tables.installed == [OLD]


def test_relation_that_is_equal_is_installed_again_after_the_columns_were_altered() -> None:
    """I8: one of them may have been dropped and made again."""
    tables = Tables()
    tables.announced.receive(OLD)
    tables.announced.note_altered(ORDERS)
    tables.announced.show(OLD, None)

    assert tables.change() == OLD
    assert tables.installed == [OLD, OLD]

    tables.announced.end_replay()
    tables.change()

    assert tables.installed == [OLD, OLD]


def test_what_a_commit_makes_known_stays_known_unless_a_newer_one_came_meanwhile() -> None:
    """The order on the wire decides, not that of the commits."""
    for is_newer in (True, False):
        tables = Tables()
        arrival = tables.announced.number_arrival()
        if is_newer:
            tables.announced.receive(OLD)
            arrival = tables.announced.number_arrival()
        else:
            tables.announced.receive(OLD)
        tables.announced.show(NEW, arrival)
        tables.announced.end_replay()

        assert tables.change() == (NEW if is_newer else OLD)


def test_ordinary_relation_is_newer_than_one_that_was_due() -> None:
    tables = Tables()
    tables.announced.receive_prepared(OLD)
    tables.announced.receive(NEW)

    assert tables.change() == NEW


def test_relation_of_a_prepared_transaction_is_known_at_once() -> None:
    """Also where it is rolled back: the server does not announce it again."""
    tables = Tables()
    tables.announced.receive(OLD)
    tables.announced.receive_prepared(NEW)

    assert tables.change() == NEW
    assert tables.announced.all_known() == [NEW]


def test_prepared_transaction_is_read_by_what_was_known_when_it_came() -> None:
    tables = Tables()
    tables.announced.receive(OLD)
    then = tables.announced.all_known()
    tables.announced.receive(NEW)
    tables.announced.show_all(then)

    assert tables.change() == OLD
