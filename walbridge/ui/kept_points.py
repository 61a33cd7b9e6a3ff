"""The last day of one pipeline in a file, for the next start of the page.

In: points. Out: a file in a folder that the operator names, replaced as a whole each minute; 200 kB at most. It
holds moments and numbers only. If it cannot be read the day begins empty: nothing depends on it.
"""

import json
from collections.abc import Sequence
from dataclasses import astuple, fields
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from walbridge.runtime.whole_file import replace_file
from walbridge.schemas.errors import OperatorError
from walbridge.ui.history import POINTS_MAX, Point

log = structlog.get_logger()

FORMAT_VERSION = 1
_DAY = timedelta(days=1)


class KeptPoints:
    """The file of one pipeline. Only one thread uses it.

    Raises:
        OperatorError: the folder cannot be made.
    """

    def __init__(self, folder: Path, pipeline: str) -> None:
        self._path = folder / f"{pipeline}.json"
        self._is_warned = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OperatorError(
                f"the folder {folder} for the last day cannot be made: {error.strerror}",
                remedy="name another one with --keep, or leave --keep out",
            ) from None

    def read(self, now: datetime) -> list[Point]:
        """The points of the last day, oldest first; none if the file cannot be read as ours."""
        try:
            found = json.loads(self._path.read_bytes())
            points = [_point(each) for each in found["points"]] if found["format_version"] == FORMAT_VERSION else []
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
            log.warning("the last day cannot be read, and begins anew", file=str(self._path), why=type(error).__name__)
            return []
        return [each for each in points if now - _DAY <= each.at <= now][-POINTS_MAX:]

    def write(self, points: Sequence[Point]) -> None:
        """Replace the file. If that fails, one warning is logged until it works again."""
        told = {"format_version": FORMAT_VERSION, "points": [astuple(each) for each in points]}
        try:
            replace_file(self._path, json.dumps(told, default=datetime.isoformat).encode())
            self._is_warned = False
        except OSError as error:
            if not self._is_warned:
                log.warning("the last day cannot be kept", file=str(self._path), why=error.strerror)
            self._is_warned = True


def _point(values: list[float | str | None]) -> Point:
    at, *numbers = values
    if len(numbers) != len(fields(Point)) - 1 or not all(isinstance(each, int | float | None) for each in numbers):
        raise ValueError("not a point")
    moment = datetime.fromisoformat(str(at))
    if moment.tzinfo is None:
        raise ValueError("a moment without a zone")
    return Point(moment, *numbers)  # type: ignore[arg-type]  # looked at above
