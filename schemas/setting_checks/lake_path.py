"""Paths of a lake that delta-rs or Spark would read as another one.

In: ``[lake] path``, a folder or the URI of a store. Out: the same, or the error that names what is misread. A folder is
made a URL on its way, and a URL's escapes are read by one engine and not by the other: so tables would lie in one
place and be looked for in another. Which characters these are both engines were asked
(tests/spark_consumer/delta/test_lake_paths.py).
"""

import os
import re
from pathlib import Path

from walbridge.schemas.errors import OperatorError

_MISREAD = r"%[0-9A-Fa-f]{2}|[\x00-\x1f\x7f\[\]^|\\]"
_IN_A_FOLDER = re.compile(_MISREAD)
_IN_A_URI = re.compile(rf"{_MISREAD}|[#?]")
_WITHOUT = "name a place in [lake] path that is written without; a local folder needs no file:// before it"


def refuse_misread(path: str) -> None:
    """Refuse a path that is misread, also for the sake of the folder that it is relative to, or that cannot be named.

    Raises:
        OperatorError: it names the characters, or the encoding.
    """
    whole = path if "://" in path else str(Path(path).absolute())
    try:
        os.fsencode(whole)
    except UnicodeEncodeError as error:
        raise OperatorError(
            f"the lake's path {whole!a} cannot be named here, where file names are {error.encoding}",
            remedy="set LC_ALL=C.UTF-8 in this program's environment, and leave PYTHONUTF8=0 out",
        ) from None
    if misread := _misread(whole):
        raise OperatorError(f"the lake's path {whole!r} {misread}", remedy=_WITHOUT)


def read_alike(path: str) -> str:
    """A path as it is set, if it is not misread.

    Raises:
        ValueError: it names the characters; or it begins with a '~', of which only a shell makes a home folder; or it
            is empty, as of a variable that somebody did not fill.
    """
    if not path:
        raise ValueError("it is empty: name a folder, or leave it out for lake")
    if path.startswith("~"):
        raise ValueError("nobody puts a home folder in place of its '~': write the folder out")
    if misread := _misread(path):
        raise ValueError(f"it {misread}: {_WITHOUT}")
    return path


def _misread(path: str) -> str:
    found = sorted({*(_IN_A_URI if "://" in path else _IN_A_FOLDER).findall(path)})
    return f"holds {' and '.join(map(repr, found))}, which delta-rs and Spark do not read alike" if found else ""
