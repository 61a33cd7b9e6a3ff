"""The event triggers that report DDL in the stream: all are there, none, those of another version, or too few.

In: what is there. Out: findings.
"""

from collections.abc import Iterator

from walbridge.check.finding import Finding, ok, warning
from walbridge.check.source.publication import AREA
from walbridge.ddl_trigger import DdlTriggerState
from walbridge.schemas.ddl_row import DDL_PUBLICATION


def ddl_findings(state: DdlTriggerState) -> Iterator[Finding]:
    """Is DDL told in the stream? Nobody need want it; half of it is worth nothing."""
    if state.is_whole and not state.is_of_this_version:
        yield warning(
            AREA,
            "DDL is told in the stream by event triggers of another version: they may not tell all of it",
            "walbridge init --ddl-trigger --admin-dsn ...",
        )
    elif state.is_whole:
        yield ok(AREA, f"DDL is told in the stream, by publication {DDL_PUBLICATION}")
    elif not state.is_absent:
        lacking = [f"event trigger {name} is missing, or not ENABLE ALWAYS" for name in state.missing]
        lacking += [] if state.is_published else [f"publication {DDL_PUBLICATION} does not publish its table"]
        text = f"DDL is not told in the stream, or not all of it: {'; '.join(lacking)}"
        yield warning(
            AREA,
            text,
            "walbridge init --no-ddl-trigger --admin-dsn ..., then walbridge init --ddl-trigger --admin-dsn ...",
        )
