"""Names: topics, Avro names, lake paths, lake column names. Every mapping is injective.

A table keeps the topic and the lake path of its first name for life. So another one may have that name by
now: ``free_topic`` and ``free_path`` give it a suffix.

A value never chooses a name. What a target refuses is written ``_uXXXX`` (UTF-16 code units);
a plain ``_`` stays unless it is followed by ``u`` and four hex digits, so that two different
names never meet (Debezium's ``foo@bar`` and ``foo$bar`` did).
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, count

from walbridge.schemas.errors import OperatorError

TOPIC_NAME_LENGTH_MAX = 249
PATH_PART_BYTES_MAX = 255
_SUFFIX_MAX = 32
"""What may follow the name of a folder (``_2``, or as ``new_folder`` says) or of a topic."""
LAKE_STRUCT = "_walbridge"
"""The one column that walbridge adds to every lake table."""

_ESCAPE = re.compile(r"_(?=u[0-9a-fA-F]{4})")
_PIPELINE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DELTA_REFUSES = set(" ,;{}()\n\t=")
_TOPIC_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]+")
_AVRO_RESERVED = re.compile(r"_(exceptional|revision_[0-9]+)")


def _escape_char(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"_u{units[i] << 8 | units[i + 1]:04x}" for i in range(0, len(units), 2))


def _escape(name: str, legal: re.Pattern[str]) -> str:
    name = _ESCAPE.sub("\0", name)
    return "".join(
        _escape_char("_") if char == "\0" else char if legal.fullmatch(char) else _escape_char(char) for char in name
    )


def _cut(name: str, length: int) -> str:
    """A name of legal characters, or its beginning and a digest where it is longer. A name that is cut again differs
    from all others that are, since so does its digest."""
    if len(name) <= length:
        return name
    end = _CUT + hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return _HALF_ESCAPE.sub("", name[: length - len(end)]) + end


_CUT, _DIGEST = "_u0000", 32
_HALF_ESCAPE = re.compile(r"_(u[0-9a-f]{0,3})?$")
_TOPIC_CHAR = re.compile(r"[A-Za-z0-9_-]")
_AVRO_CHAR = re.compile(r"[A-Za-z0-9_]")


def is_pipeline_name(name: str) -> bool:
    """Letters, digits, ``-`` and ``_``; no dot, since dots separate the parts of a topic."""
    return _PIPELINE_NAME.fullmatch(name) is not None


def topic_part(name: str) -> str:
    """One part of a topic name: everything but letters, digits, ``_`` and ``-`` escaped."""
    return _escape(name, _TOPIC_CHAR)


def avro_name(name: str) -> str:
    """An Avro name: letters, digits and ``_``, not starting with a digit.

    A column named as one of our own fields beside columns (``_exceptional``, ``_revision_1``)
    has its first character escaped, which no other name's escape can equal.
    """
    escaped = _escape(name, _AVRO_CHAR)
    if escaped[:1].isdigit() or _AVRO_RESERVED.fullmatch(escaped):
        escaped = _escape_char(escaped[0]) + escaped[1:]
    return escaped


def path_part(name: str) -> str:
    """One part of a lake path. A leading ``_`` is escaped: folders that start so are ours."""
    escaped = _escape(name, _TOPIC_CHAR)
    kept = name.startswith("_") and not _ESCAPE.match(name)
    return _escape_char("_") + escaped[1:] if kept else escaped


def metadata_topic(pipeline: str) -> str:
    """The topic of Relation and Type records."""
    return f"{pipeline}.metadata"


def cuts_topic(pipeline: str) -> str:
    """The topic of cuts."""
    return f"{pipeline}.cuts"


def progress_topic(pipeline: str) -> str:
    """The topic of progress records."""
    return f"{pipeline}.progress"


def status_topic(pipeline: str) -> str:
    """The topic of what the producer says of itself."""
    return f"{pipeline}.status"


def messages_topic(pipeline: str) -> str:
    """The topic of logical messages, which no table has: theirs have two dots."""
    return f"{pipeline}.messages"


def transaction_topic(pipeline: str) -> str:
    """The topic of what tells where transactions begin and end."""
    return f"{pipeline}.transaction"


def data_topic(pipeline: str, namespace: str, name: str, names: Mapping[str, str] | None = None) -> str:
    """The topic of a table; ``names`` are the operator's ``[topics.names]``: table → topic.

    Raises:
        OperatorError: an operator's name that Kafka refuses.
    """
    topic = (names or {}).get(f"{namespace}.{name}")
    if topic is None:
        return _own_topic(pipeline, topic_part(namespace), topic_part(name))
    if len(topic) > TOPIC_NAME_LENGTH_MAX:
        raise OperatorError(
            f"the topic name of table {namespace}.{name} has {len(topic)} characters, "
            f"Kafka allows {TOPIC_NAME_LENGTH_MAX}",
            remedy=f'shorten [topics.names] "{namespace}.{name}"',
        )
    if not _TOPIC_NAME.fullmatch(topic):
        raise OperatorError(
            f"{topic!r} is no topic name: letters, digits, '.', '_' and '-' only",
            remedy=f'mend [topics.names] "{namespace}.{name}"',
        )
    return topic


def _own_topic(pipeline: str, namespace: str, name: str) -> str:
    """The topic of a table, made of escaped names. Each name is shortened by itself, so that topics of different names
    differ."""
    room = TOPIC_NAME_LENGTH_MAX - len(pipeline) - len("..")
    if len(namespace) + len(name) > room:
        namespace = _cut(namespace, room // 2)
        name = _cut(name, room - len(namespace))
    return f"{pipeline}.{namespace}.{name}"


def refuse_topic_collisions(topics: Iterable[str]) -> None:
    """Refuse one topic for two tables, and two that are equal once every ``.`` is a ``_``.

    Kafka itself refuses the latter (its metric names). Each table's topic is given once.

    Raises:
        OperatorError: naming both topics.
    """
    seen: dict[str, str] = {}
    for topic in topics:
        metric = _metric(topic)
        other = seen.get(metric)
        if other is not None:
            raise OperatorError(
                f"two tables have the topic {topic}"
                if other == topic
                else f"Kafka cannot hold both {other} and {topic}: they are equal after '.' becomes '_'",
                remedy="rename one of them with an entry in [topics.names]",
            )
        seen[metric] = topic


def free_topic(wanted: str, taken: Iterable[str]) -> str:
    """The wanted topic, or with the first suffix ``_2``, ``_3`` … that Kafka can hold beside those."""
    metrics = {_metric(topic) for topic in taken}
    return _first_free(wanted, TOPIC_NAME_LENGTH_MAX, lambda each: _metric(each) not in metrics)


def free_path(wanted: str, taken: Collection[str]) -> str:
    """The wanted lake path, or with the first suffix that none of those has, as it is or as ``folder_stem``."""
    part = wanted.rpartition("/")[2]
    schema, taken_paths = wanted.removesuffix(part), {*taken}

    def is_free(part: str) -> bool:
        return taken_paths.isdisjoint((schema + part, folder_stem(schema + part)))

    return schema + _first_free(part, PATH_PART_BYTES_MAX, is_free)


def folder_stem(path: str) -> str:
    """A table's lake path, cut so far that a suffix can follow it."""
    part = path.rpartition("/")[2]
    return path.removesuffix(part) + _cut(part, PATH_PART_BYTES_MAX - _SUFFIX_MAX)


def _first_free(wanted: str, length: int, is_free: Callable[[str], bool]) -> str:
    suffixes = (f"_{number}" for number in count(2))
    names = chain([wanted], (_cut(wanted, length - len(suffix)) + suffix for suffix in suffixes))
    return next(name for name in names if is_free(name))


def is_same_topic(one: str, other: str) -> bool:
    """Whether Kafka cannot hold both."""
    return _metric(one) == _metric(other)


def _metric(topic: str) -> str:
    """As Kafka names the topic's metrics: it refuses two topics that are equal so."""
    return topic.replace(".", "_")


def table_path(namespace: str, name: str) -> str:
    """The lake path of a table, relative to the lake: ``<schema>/<table>``."""
    return f"{_folder(path_part(namespace))}/{_folder(path_part(name))}"


def _folder(part: str) -> str:
    return part if len(part) <= PATH_PART_BYTES_MAX else _cut(part, PATH_PART_BYTES_MAX - _SUFFIX_MAX)


def lake_column_names(columns: Sequence[str]) -> list[str]:
    """The lake's names of a table's columns, in their order.

    Delta refuses some characters, and two names that differ in case only: the later of such
    two gets as many leading characters escaped as it takes, as does our own ``_walbridge``.
    """
    taken = {LAKE_STRUCT}
    names = []
    for column in columns:
        name = _ESCAPE.sub(_escape_char("_"), column)
        name = "".join(_escape_char(char) if char in _DELTA_REFUSES else char for char in name) or "_"
        start = 0
        while _without_case(name) in taken:
            # Escapes from left to right until the name is free; each step keeps it injective.
            while name[start : start + 2] == "_u" and _ESCAPE.match(name, start):
                start += 6
            name = name[:start] + _escape_char(name[start : start + 1] or "_") + name[start + 1 :]
            start += 6
        taken.add(_without_case(name))
        names.append(name)
    return names


def _without_case(name: str) -> str:
    """Equal for names that Delta (lower case) or Spark (upper, then lower) takes for one:
    ``ſ`` is an ``S`` to Spark, ``ẞ`` an ``ß`` to Delta."""
    return name.lower().upper().lower()
