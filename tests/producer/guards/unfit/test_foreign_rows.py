"""What comes of rows that replication brought, when settings say that their changes do not come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.producer.guards.test_source_watch import END, Watched
from tests.producer.kept import ITEMS, ORDERS, SETTINGS
from walbridge.producer.guards.unfit import foreign_rows
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Postgres


def _settings(origin: str, *, copy: bool = False) -> Settings:
    postgres = Postgres.model_validate({"origin": origin, "copy_foreign_rows": copy})
    return SETTINGS.model_copy(update={"postgres": postgres})


def _opened(
    settings: Settings, progress: Progress | None = None, *subscribed: int, awaited: str | None = None
) -> Watched:
    """A session over what the one before left behind."""
    watched = Watched(settings)
    watched.tables.awaited_origin = awaited
    watched.tracker.progress = progress or watched.tracker.progress
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(foreign_rows, "subscribed", lambda _, asked: {*asked} & {*subscribed})
        watched.open()
    return watched


def test_start_is_refused_once_the_changes_of_rows_that_the_lake_has_would_stay_away() -> None:
    """I7: the stream says nothing of them. A table that nobody replicates to is as before."""
    before = _opened(_settings("any"), None, ORDERS).tracker.progress

    with pytest.raises(
        OperatorError, match=r'origin is "none" by now, and a subscription .* public.orders:'
    ) as refused:
        _opened(_settings("none"), before, ORDERS)
    with pytest.raises(OperatorError, match=r"table public.items and of 1 more"):
        _opened(_settings("none"), before, ORDERS, ITEMS)

    with pytest.raises(OperatorError, match=r"table public.orders:"):
        _opened(_settings("any"), before, ORDERS, awaited="none")

    assert "[postgres] copy_foreign_rows = true" in refused.value.remedy
    assert not _opened(_settings("none"), before).watched.doubts.reasons
    assert not _opened(_settings("none", copy=True), before, ORDERS).watched.doubts.reasons
    assert not _opened(_settings("any"), before, ORDERS).watched.doubts.reasons


def test_tables_whose_foreign_rows_did_not_come_are_in_doubt_until_a_cut_says_so() -> None:
    """I8: whatever a session wrote meanwhile of the options that it asked for."""
    before = _opened(_settings("none")).tracker.progress
    untold = _opened(_settings("any"), before)
    assert {*untold.watched.doubts.reasons} == {ORDERS, ITEMS}
    untold.tracker.remember_stream_options({})

    told = _opened(_settings("any"), untold.tracker.progress)
    assert {*told.watched.doubts.take(END)} == {ORDERS, ITEMS}
    assert not _opened(_settings("any"), told.tracker.progress).watched.doubts.reasons


def test_progress_of_earlier_code_tells_the_origin_by_the_options_of_its_stream() -> None:
    progress = Watched().tracker.progress
    before = replace(progress, options=progress.options | {"origin": "none"})

    assert {*_opened(_settings("any"), before).watched.doubts.reasons} == {ORDERS, ITEMS}
    assert not _opened(_settings("none"), before, ORDERS).watched.doubts.reasons
