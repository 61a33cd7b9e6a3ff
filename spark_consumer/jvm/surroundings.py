"""What a session takes from the environment of its program: looked at before pyspark goes by it.

In: variables, the current folder. Out: nothing, or the refusal that names the one to change.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import pyspark

from walbridge.schemas.errors import OperatorError

_CORE = re.compile(r"spark-core_[\d.]+-(\d+\.\d+)\S*\.jar")
_OURS = ".".join(pyspark.__version__.split(".")[:2])
_UNSET = f"unset SPARK_HOME, and the Spark {_OURS} beside walbridge is taken; or let it name a Spark {_OURS}"


def refuse_surroundings(environ: Mapping[str, str]) -> None:
    """Refuse a Spark that is not this one's, and a current folder that is gone.

    Raises:
        OperatorError: it names the variable, or the folder.
    """
    try:
        Path.cwd()
    except OSError as error:
        raise OperatorError(
            f"the folder that this program was started in cannot be entered: {error.strerror}",
            remedy="start it in a folder that is there (cd)",
        ) from None
    if home := environ.get("SPARK_HOME"):
        _refuse_other_spark(Path(home))


def _refuse_other_spark(home: Path) -> None:
    if not (home / "bin" / "spark-submit").is_file():
        raise OperatorError(f"SPARK_HOME is {home}, where no Spark is: it has no bin/spark-submit", _UNSET)
    found = {match[1] for jar in home.glob("jars/spark-core_*.jar") if (match := _CORE.fullmatch(jar.name))}
    if found and _OURS not in found:
        raise OperatorError(f"SPARK_HOME is {home}, which is Spark {', '.join(sorted(found))}", _UNSET)
