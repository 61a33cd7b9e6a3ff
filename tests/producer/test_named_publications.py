"""Which publications a session asks for, where the settings name others than the session before asked for."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.producer.kept import ORDERS, SETTINGS, Kept
from tests.producer.streaming_progress import SPLIT, STREAMING
from walbridge.producer import named_publications
from walbridge.producer.named_publications import names_of_next_session, settings_of_session
from walbridge.producer.postgres.facts import Membership, PublishedTable
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings_sections import Postgres

OLDS = {"z": 1, "y": 2}
FOLLOWED = replace(
    STREAMING,
    options=STREAMING.options
    | {"publication_names": '"z","y"', "walbridge.publication": "1 2", "walbridge.topics": ""},
)


class Catalogue:
    """``there``: publications and their ids; ``published``: None while a table is altered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, version: int, there: dict[str, int]) -> None:
        self.connection = cast(Any, SimpleNamespace(info=SimpleNamespace(server_version=version)))
        self.there = there
        self.published: list[PublishedTable] | None = []
        self.tables = Kept().tables

        def named(_: object, names: tuple[str, ...]) -> dict[str, int]:
            return {name: oid for name, oid in self.there.items() if name in names}

        monkeypatch.setattr(named_publications, "publications_named", named)
        monkeypatch.setattr(named_publications, "published_tables_unless_locked", lambda *_: self.published)

    def asked(self, *names: str, progress: Progress = FOLLOWED) -> tuple[str, ...]:
        postgres = Postgres.model_validate({"publications": names})
        settings = SETTINGS.model_copy(update={"postgres": postgres})
        session = settings_of_session(settings, self.connection, self.tables, progress)
        asked = session.postgres.publication_names
        assert self.tables.awaited_publications == (() if {*asked} == {*names} else names)
        if self.tables.named_sessions.asked is None:
            assert names_of_next_session(settings, self.connection, progress)[0] == asked
        return asked

    def looked(self, *names: str) -> None:
        """Two looks that find them, and the second one the end of all who were writing before."""
        found = frozenset((name, self.there[name]) for name in names)
        self.tables.named_sessions.look(found, 80, Lsn(500), lambda: 90)
        self.tables.named_sessions.look(found, 90, Lsn(600), lambda: 99)


@pytest.mark.parametrize("version", [170000, 180000])
def test_new_ones_are_asked_for_behind_all_who_were_writing_when_they_were_seen(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    catalogue = Catalogue(monkeypatch, version, OLDS | {"b": 3})
    assert catalogue.asked("b") == ("z", "y")
    catalogue.looked("b")
    assert catalogue.asked("b", progress=replace(FOLLOWED, floor=Lsn(599))) == ("z", "y")
    catalogue.looked("b")
    assert catalogue.asked("b", progress=replace(FOLLOWED, floor=Lsn(600))) == ("b",)


@pytest.mark.parametrize(("version", "asked"), [(170000, ("z", "y")), (180000, ("b",))])
@pytest.mark.parametrize("there", [{"z": 1, "b": 3}, {"z": 1, "y": 4, "b": 3}])
def test_new_ones_are_asked_for_at_once_where_one_of_before_is_gone_and_the_server_leaves_it_out(
    monkeypatch: pytest.MonkeyPatch, version: int, asked: tuple[str, ...], there: dict[str, int]
) -> None:
    assert Catalogue(monkeypatch, version, there).asked("b") == asked


def test_some_of_those_of_before_are_asked_for_at_once_but_not_inside_of_a_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catalogue = Catalogue(monkeypatch, 170000, OLDS)
    assert catalogue.asked("y") == ("y",)
    assert catalogue.asked("y", progress=replace(FOLLOWED, split=SPLIT)) == ("z", "y")
    catalogue.looked("y")
    assert catalogue.tables.named_sessions.next_session_lsn == 600


def test_those_that_publish_other_columns_are_refused_and_wait_while_nobody_can_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I7: the SQL alters the one that is new."""
    catalogue = Catalogue(monkeypatch, 180000, OLDS | {"b": 3})
    members = tuple(
        Membership(name, ("insert", "update", "delete", "truncate"), columns, None, frozenset(columns), has_list)
        for name, columns, has_list in (("b", ("id",), True), ("z", ("id", "v"), False))
    )
    catalogue.published = [PublishedTable(ORDERS, "public", "t", "d", ("id",), None, False, members)]
    with pytest.raises(OperatorError, match=r"publish different columns of table public\.t") as refused:
        catalogue.asked("b", "z")
    assert 'ALTER PUBLICATION "b" DROP TABLE "public"."t"' in refused.value.remedy
    assert "name z, y again" in refused.value.remedy

    catalogue.published = None
    assert catalogue.asked("b", "z") == ("z", "y")
