"""What a program last said of itself: that it runs, or how and why it ended. Pure.

In: a program's words. Out: a record as JSON, and what follows from the newest two of a program at one moment.

The one record says that a program runs. It is written by the program that holds the pipeline, renewed while that runs,
and written with its end once more. The other is of the last end, whoever ended: a start that was refused never
held the pipeline. So no start takes the place of what the running program says, and a record that is
neither renewed nor ended tells of a program that was killed, or whose machine is gone. What stands in it has no
row values and no secrets, as in any error (I10); newer code may add fields, which are passed over.
"""

import json
import re
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from walbridge.schemas.errors import ProtocolError

FORMAT_VERSION = 1
PRODUCER, JOB, VERIFIER = "producer", "job", "verify"
"""Programs."""
RUN, END = "run", "end"
"""Records of a program."""
RENEW_S = 10.0
SILENT_S = 30.0
"""A program that was not heard of for so long does not run, unless its machine or its slot knows better."""
_MINUTE = "%Y-%m-%d %H:%MZ"
_DIFFERENCE = re.compile(r"; last difference: (.*), at (\d{4}-\d\d-\d\d \d\d:\d\dZ)$", re.DOTALL)


class How(StrEnum):
    """How a run ended."""

    STOPPED = "stopped"
    """It was asked to, or was done."""
    REFUSED = "error"
    """Somebody has to act."""
    BUG = "bug"
    UNSAID = "without a word"
    """The next run says so: killed, or its machine is gone."""


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended. ``exit_code`` None: nobody was told."""

    at: datetime
    how: How
    exit_code: int | None = None
    what: str | None = None
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a program. ``process``: its identity on its machine (``runtime/reports/own_process.py``)."""

    program: str
    pipeline: str
    run_id: str
    version: str
    host: str
    pid: int
    process: str
    since: datetime
    seen: datetime
    state: str
    end: End | None = None

    def ended(self, end: End) -> "Run":
        """This run with its end."""
        return replace(self, end=end, seen=max(self.seen, end.at) if end.how is not How.UNSAID else self.seen)

    @property
    def where(self) -> str:
        """For people."""
        return f"process {self.pid} on {self.host}"


@dataclass(frozen=True, slots=True)
class LastWords:
    """What is known of one program. ``run`` None: it never ran here; ``end``: the newest end, of any run.

    ``is_sure``: its machine was asked whether it runs; else only the age of its record tells that.
    """

    run: Run | None = None
    end: Run | None = None
    is_running: bool = False
    is_sure: bool = False

    @property
    def has_died(self) -> bool:
        """Whether the run that held the pipeline is over and nobody said so."""
        return self.run is not None and self.run.end is None and not self.is_running

    @property
    def recorded_end(self) -> Run | None:
        """What ended last, if it said so: a start that was refused later says more than a run that was killed."""
        if self.run is None or not self.has_died:
            return self.end
        is_newer = self.end is not None and self.end.end is not None and self.end.end.at > self.run.seen
        return self.end if is_newer else None

    def with_slot_in_use(self, is_in_use: bool) -> "LastWords":
        """Of a producer, with what Postgres says of its slot.

        A record is old also where the reader's clock is ahead, or Kafka was away and nobody could renew it.
        """
        return replace(self, is_running=True) if is_in_use and self.has_died and not self.is_sure else self


NEVER_RAN = LastWords()


def last_words(run: Run | None, ends: "list[Run | None]", now: datetime, is_alive: bool | None) -> LastWords:
    """What the newest records of a program say at this moment.

    Args:
        ends: records of ends, from wherever they were kept.
        is_alive: whether the process of ``run`` lives; None where its machine cannot be asked.
    """
    told = [each for each in (run, *ends) if each is not None and each.end is not None]
    end = max(told, key=lambda each: each.end.at if each.end else each.seen, default=None)
    if run is not None and run.end is None:  # its own end may have come through as the other record alone
        run = next((each for each in told if each.run_id == run.run_id), run)
    if run is None or run.end is not None:
        return LastWords(run, end)
    is_heard_of = now - run.seen <= timedelta(seconds=SILENT_S)
    return LastWords(run, end, is_heard_of if is_alive is None else is_alive, is_alive is not None)


def difference_text(table: str, at: datetime) -> str:
    """What the state of a verifier ends with once a table differed."""
    return f"; last difference: {table}, at {at:{_MINUTE}}"


def last_difference(state: str) -> tuple[str, datetime] | None:
    """The table and the moment that such a state ends with; None where none differed."""
    found = _DIFFERENCE.search(state)
    return found and (found[1], datetime.strptime(found[2], _MINUTE).replace(tzinfo=UTC))


def encode_run(run: Run) -> bytes:
    """The record."""
    return json.dumps(
        {"format_version": FORMAT_VERSION} | asdict(run), default=datetime.isoformat, ensure_ascii=False
    ).encode(errors="replace")  # names from the environment may be no Unicode


def decode_run(text: bytes) -> Run:
    """The inverse.

    Raises:
        ProtocolError: it is no such record.
    """
    try:
        record = json.loads(text)
        end = record["end"]
        names = ("program", "pipeline", "run_id", "version", "host", "process", "state")
        return Run(
            **{name: str(record[name]) for name in names},
            pid=int(record["pid"]),
            since=_moment(record["since"]),
            seen=_moment(record["seen"]),
            end=None if end is None else _end(end),
        )
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
        raise ProtocolError(f"no record of a run: {type(error).__name__}") from None


def _end(record: dict[str, Any]) -> End:
    code = record["exit_code"]
    return End(
        _moment(record["at"]),
        How(record["how"]),
        None if code is None else int(code),
        record["what"] and str(record["what"]),
        record["remedy"] and str(record["remedy"]),
    )


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a moment without a zone")
    return moment


def record_key(slot: str, program: str, record: str) -> bytes:
    """The Kafka key: of the slot's program the newest record of a kind remains."""
    return f"{slot}/{program}/{record}".encode()
