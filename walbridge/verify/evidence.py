"""The rows that were proved to differ, kept for who looks for the cause: a table that differs is soon copied again.

In: a result with keys. Out: a file of this user's alone in ``metrics.state_dir``, beside what programs leave there; one
for each table, which the next difference replaces. Keys are values of rows: they are in no log, topic or page (I10).
"""

import json
from datetime import UTC, datetime
from pathlib import Path

from walbridge.runtime.reports.local_end import local_paths, write_first
from walbridge.schemas.settings import Settings
from walbridge.verify.report import TableResult, as_fields


def keep(settings: Settings, result: TableResult) -> Path:
    """Durable when it returns; where it is.

    Raises:
        OSError: it cannot be kept.
    """
    found = {"pipeline": settings.name, "found_at": datetime.now(UTC).isoformat(timespec="seconds")} | as_fields(result)
    text = json.dumps(found, ensure_ascii=False, indent=1) + "\n"
    paths = local_paths(settings, f"{settings.name}-differs-{result.relation_id}.json")
    return write_first(paths, text.encode(errors="replace"))
