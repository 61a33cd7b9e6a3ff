"""This machine, for ``walbridge materialize``: Java and Spark's jars. Fetches nothing."""

from collections.abc import Iterator
from pathlib import Path

from schemas.errors import OperatorError
from schemas.settings import Settings
from walbridge.check.finding import Finding, advice, error, ok, refused, warning
from walbridge.embedded.folders import folder
from walbridge.embedded.jars import check as check_jars
from walbridge.embedded.jars import read_lock
from walbridge.embedded.java import find_java

JAVA = "java"
JARS = "jars"


def java_findings() -> Iterator[Finding]:
    """Spark runs on Java 17 and 21."""
    try:
        java = find_java()
    except OperatorError as refusal:
        yield refused(JAVA, refusal)
    else:
        yield ok(JAVA, f"version {java.major} in {java.java_home}")


def jar_findings(settings: Settings) -> Iterator[Finding]:
    """Each jar against its checksum."""
    chosen = settings.spark.jars_dir
    place = Path(chosen) if chosen is not None else folder("jars") / "spark"
    locked = [jar for jar in read_lock() if jar.set_name == "spark"]
    if chosen is None and not place.is_dir():
        yield advice(
            JARS, "Spark's jars are not fetched yet", "walbridge jars; else walbridge materialize fetches them"
        )
        return
    if not list(place.glob("*.jar")):
        yield error(JARS, f"no jars in {place}", "mend [spark] jars_dir, or leave it out: then walbridge fetches them")
        return
    try:
        check_jars(place, locked)
    except OperatorError as refusal:
        fetch_again = "leave out [spark] jars_dir, or fill it with the files of: walbridge jars --print"
        yield warning(JARS, f"in {place}: {_differs(refusal)}", fetch_again)
    else:
        yield ok(JARS, f"{len(locked)} jars in {place}, each as jars.lock names it")


def _differs(refusal: OperatorError) -> str:
    return refusal.what.replace("could not be fetched", "is missing")
