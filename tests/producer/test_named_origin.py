"""From which session on what replication brings is left out, where it came until now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.producer.kept import SETTINGS, Kept
from tests.producer.streaming_progress import SPLIT, STREAMING
from walbridge.producer.named_origin import with_origin_of_session
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Postgres

BEHIND = replace(STREAMING, floor=Lsn(600))


def _settings(*, copy: bool = False) -> Settings:
    postgres = Postgres.model_validate({"origin": "none", "copy_foreign_rows": copy})
    return SETTINGS.model_copy(update={"postgres": postgres})


@pytest.mark.parametrize(
    ("progress", "asked"), [(STREAMING, "any"), (BEHIND, "none"), (replace(BEHIND, split=SPLIT), "any")]
)
def test_session_that_begins_behind_all_who_were_writing_leaves_out_what_replication_brings(
    progress: Progress, asked: str
) -> None:
    """I7, I4: and none does so while a transaction is half published."""
    tables = Kept().tables
    assert with_origin_of_session(_settings(), tables, STREAMING).postgres.origin == "any"
    tables.origin_sessions.look("none", 80, Lsn(500), lambda: 90)
    tables.origin_sessions.look("none", 90, Lsn(600), lambda: 99)
    assert tables.origin_sessions.next_session_lsn == 600

    assert with_origin_of_session(_settings(), tables, progress).postgres.origin == asked
    assert tables.awaited_origin == (None if asked == "none" else "none")


@pytest.mark.parametrize(
    ("settings", "progress"),
    [
        (_settings(copy=True), STREAMING),
        (_settings(), replace(STREAMING, options=STREAMING.options | {"origin": "none"})),
    ],
)
def test_session_leaves_it_out_at_once_where_it_did_not_come_or_may_stay_as_it_is(
    settings: Settings, progress: Progress
) -> None:
    assert with_origin_of_session(settings, Kept().tables, progress) is settings
