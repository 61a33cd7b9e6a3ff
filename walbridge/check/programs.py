"""Both programs: do they run, and how did the last run of each end?

In: their last words. Out: findings. A program that does not run may have been stopped on purpose, and what ended it may
be mended by now: so nothing here is an error.
"""

from collections.abc import Iterator
from datetime import datetime

from walbridge.check.finding import Finding, advice, ok, warning
from walbridge.schemas.control.run_record import How, LastWords
from walbridge.status.words import word_lines

AREA = "programs"


def program_findings(verb: str, words: LastWords, now: datetime) -> Iterator[Finding]:
    """The findings about one program, named by the verb that starts it. None where it never ran."""
    lines = list(word_lines(words, now))
    if not lines:
        return
    command, end = f"walbridge {verb}", words.recorded_end.end if words.recorded_end is not None else None
    text = f"{command} {lines[0]}"
    if words.is_running:
        yield ok(AREA, text)
    elif end is not None and end.how is How.STOPPED:
        yield advice(AREA, text, command)
    else:
        mended = end.remedy if end is not None else None
        yield warning(AREA, text, f"{mended}; then {command}" if mended else command)
