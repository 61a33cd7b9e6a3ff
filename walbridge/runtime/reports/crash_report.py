"""A bug's place without its words: what a crash may write into a log (I10).

In: an exception nobody foresaw. Out: its stack on stderr, classes and lines of code of Python
and Java, and exit code 1. Messages of libraries are left out: Delta's quote the row that breaks a
constraint, Arrow's and Java's the value that does not fit. What the machine refuses is no bug: that
is told as the operator's, with exit code 2.
"""

import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from walbridge.runtime.machine_limits import refused_by_machine
from walbridge.schemas.errors import EXIT_BUG, WalbridgeError, report

_JAVA_FRAME = re.compile(r"\s*at [\w.$/<>-]+\([\w.: ]*\)")
_JAVA_CLASS = re.compile(r"\s*(?:Caused by: |: )((?:[a-z]\w*\.)+[A-Z][\w$]*)(?=:|$)")


def report_bug(error: BaseException) -> int:
    """Say on stderr where it came up; the exit code."""
    if (refused := refused_by_machine(error)) is not None:
        return report(refused)
    sys.stderr.write(
        "Traceback (most recent call last):\n" + "".join(_lines(error)) + f"error: a bug: {_name(error)}; its message "
        "may quote rows and is left out\nremedy: start again, nothing is lost; report the lines above\n"
    )
    return EXIT_BUG


def bug_place(error: BaseException) -> str:
    """Its class and the line of code where it came up."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return _name(error)
    last = frames[-1]
    return f"{_name(error)} in {'/'.join(Path(last.filename).parts[-3:])}, line {last.lineno}, {last.name}"


def _lines(error: BaseException, told: frozenset[int] = frozenset()) -> Iterator[str]:
    """The report's lines, those of the cause first, as Python prints them.

    ``told``: errors that this one is a cause of; a chain may be a ring.
    """
    told |= {id(error)}
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and id(cause) not in told:
        yield from _lines(cause, told)
        yield "\nwhich led to:\n\n"
    yield from traceback.format_tb(error.__traceback__)
    yield f"{_name(error)}: {error}\n" if isinstance(error, WalbridgeError) else f"{_name(error)}\n"
    stack = getattr(error, "_stackTrace", None)  # of what pyspark made of a Java exception
    yield from _java_lines(f": {stack}" if isinstance(stack, str) else str(error))


def _name(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")


def _java_lines(message: str) -> Iterator[str]:
    """Classes and frames of a Java stack, which py4j gives as text."""
    if not any(map(_JAVA_FRAME.fullmatch, message.splitlines())):
        return
    for line in message.splitlines():
        if _JAVA_FRAME.fullmatch(line):
            yield f"  {line.strip()}\n"
        elif found := _JAVA_CLASS.match(line):
            yield f"  {found[1]}\n"
