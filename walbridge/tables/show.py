"""``walbridge tables``: one line for each table of the pipeline."""

import json
from collections.abc import Callable

from rich.console import Console

from walbridge.extras import missing_package
from walbridge.schemas.errors import WalbridgeError
from walbridge.schemas.settings import Settings
from walbridge.tables.read_tables import read_tables
from walbridge.tables.table_status import LakeEntry, as_json, lines, table_statuses


def show(
    settings: Settings,
    *,
    as_json_text: bool,
    with_writers: bool = False,
    say: Callable[[str], None],
    out: Callable[[str], object] = print,
) -> int:
    """Print them. Lake and Postgres may be silent: then what only they know is left out, and said.

    Args:
        with_writers: also which engine last wrote each one in the lake.

    Raises:
        OperatorError: there is no such pipeline.
        RetryableError: Kafka is away.
    """
    seen = read_tables(settings, needs_postgres=False)
    lake, silent = lake_or_why_not(settings, with_writers=with_writers)
    found = table_statuses(seen, lake)
    if as_json_text:
        out(json.dumps({"pipeline": settings.name, "tables": [as_json(each) for each in found]}, ensure_ascii=False))
    else:
        terminal = Console()
        width = terminal.width if terminal.is_terminal else None
        for line in lines(found, lake_is_known=lake is not None, width=width):
            out(line)
    for what, reason in (("Postgres", seen.postgres_is_silent), ("the lake", silent)):
        if reason is not None:
            say(f"{what} is not shown: {reason}")
    return 0


def lake_or_why_not(
    settings: Settings, *, with_writers: bool = False
) -> tuple[dict[int, LakeEntry] | None, str | None]:
    """The lake's tables by relation id; or why they cannot be read here."""
    try:
        from walbridge.tables.lake import lake_entries  # the producer's machine need not have what reads a lake

        return lake_entries(settings, with_writers=with_writers), None
    except WalbridgeError as error:
        return None, getattr(error, "what", None) or str(error)
    except ModuleNotFoundError as error:
        missing = missing_package(error)
        if missing is None:
            raise
        return None, f"{missing.name} is not installed here ({missing.install})"
