"""Names never meet: two tables or columns never share a topic, a path, an Avro or a lake name."""

import re
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.schemas.strategies import pg_names
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.topics import (
    avro_name,
    cuts_topic,
    data_topic,
    free_path,
    is_pipeline_name,
    lake_column_names,
    metadata_topic,
    path_part,
    progress_topic,
    refuse_topic_collisions,
    table_path,
    topic_part,
)
from walbridge.spark_consumer.plan.table_trouble import first_folder, new_folder

ESCAPES = {
    "topic": (topic_part, re.compile(r"[A-Za-z0-9_-]+")),
    "avro": (avro_name, re.compile(r"[A-Za-z_][A-Za-z0-9_]*")),
    "path": (path_part, re.compile(r"[A-Za-z0-9_-]+")),
}
Escape = Callable[[str], str]


def unescape(name: str) -> str:
    """What an escaped name stands for: every ``_uXXXX`` is one UTF-16 code unit."""
    plain = re.sub(r"_u([0-9a-f]{4})", lambda unit: chr(int(unit[1], 16)), name)
    return plain.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


@pytest.mark.parametrize(("escape", "legal"), ESCAPES.values(), ids=ESCAPES)
@given(name=pg_names())
@example(name="_u0041")
@example(name="_u005fu0041")
@example(name="1abc")
@example(name="_exceptional")
@example(name="_revision_12")
@example(name="😀" * 15)
@example(name="_cuts")
@example(name='a"b.c d')
def test_escaped_name_is_legal_and_unescapes_to_the_name(escape: Escape, legal: re.Pattern[str], name: str) -> None:
    escaped = escape(name)

    assert legal.fullmatch(escaped)
    assert unescape(escaped) == name


@pytest.mark.parametrize("escape", [escape for escape, _ in ESCAPES.values()], ids=ESCAPES)
@given(one=pg_names(), other=pg_names())
@example(one="foo@bar", other="foo$bar")
@example(one="_", other="__")
@example(one="A", other="_u0041")
def test_different_names_stay_different(escape: Escape, one: str, other: str) -> None:
    assert (escape(one) == escape(other)) == (one == other)


@pytest.mark.parametrize(
    ("name", "escaped"),
    [("orders", "orders"), ("a_b", "a_b"), ("a.b", "a_u002eb"), ("_u0041", "_u005fu0041"), ("é", "_u00e9")],
)
def test_plain_characters_stay_as_they_are(name: str, escaped: str) -> None:
    assert topic_part(name) == escaped


@pytest.mark.parametrize("name", ["_exceptional", "_revision_1", "_revision_23"])
def test_a_column_never_gets_the_name_of_our_own_fields_beside_columns(name: str) -> None:
    assert avro_name(name) != name


@pytest.mark.parametrize("name", ["_cuts", "_copies", "_u0041"])
def test_a_schema_never_gets_the_folder_of_our_own(name: str) -> None:
    assert path_part(name).startswith("_u005f")


def test_table_path_is_schema_then_table() -> None:
    assert table_path("public", "a/b") == "public/a_u002fb"


LONG = ["," * 63, "," * 62 + ".", "😀" * 30 + "_", "t" * 300, "t" * 299 + "_", "_" + "," * 62]
"""Longer than file systems allow once they are escaped; some of servers that were built for long names."""


@pytest.mark.parametrize("fitting", ["t" * 255, "," * 42, "orders"])
def test_names_that_fit_have_the_folder_that_they_always_had(fitting: str) -> None:
    assert table_path("public", fitting) == f"public/{path_part(fitting)}"


def test_names_that_are_too_long_are_cut_and_stay_different() -> None:
    """Also from what any other name is written as: no name holds what ``_u0000`` stands for."""
    paths = [table_path(*names) for name in LONG for names in ((name, "t"), ("s", name), (name, name))]

    assert len({*paths}) == len(paths)
    for part in {part for path in paths for part in path.split("/") if len(part) > 1}:
        assert re.fullmatch(r"(_u[0-9a-f]{4}|[A-Za-z0-9-]|_(?!u))+_u0000[0-9a-f]{32}", part)
        assert len(f"{part}~{2**32}-{2**63}") <= 255
        assert not part.startswith("_cuts")


def test_cut_name_is_the_same_for_ever() -> None:
    """A lake keeps it."""
    assert table_path("public", "," * 63) == f"public/{'_u002c' * 30}_u00005cc7b8780cfcbc0a7508d3a0caf39cae"
    assert data_topic("p", "public", "," * 63) == f"p.public.{'_u002c' * 33}_u00005cc7b8780cfcbc0a7508d3a0caf39cae"


@given(st.lists(st.sampled_from(["s/" + "t" * 255, "s/" + "t" * 222, "s/" + "t" * 223, "s/a"]), max_size=5))
def test_folders_of_tables_that_are_made_again_fit_and_never_meet(wanted: list[str]) -> None:
    """Whatever the length, and whether another table has had the name."""
    taken: list[str] = []
    for number, each in enumerate(wanted):
        path = free_path(each, {*taken, *map(first_folder, taken)})
        taken += [path, new_folder(path, 2**32, number)]

    assert len({*taken}) == len(taken)
    assert all(len(path.rpartition("/")[2]) <= 255 for path in taken)
    for path, again in pairwise(taken):
        assert path == again or first_folder(path) != again


def test_first_folder_of_a_table_that_was_made_again_is_no_other_tables() -> None:
    """I8: rows of ``_cuts`` may name versions in it, though the new folder's name is cut."""
    long = "s/" + "t" * 255
    assert free_path(long, {first_folder(new_folder(long, 1, 1))}) != long


def test_each_topic_of_a_pipeline_has_its_name() -> None:
    topics = [metadata_topic("p"), cuts_topic("p"), progress_topic("p"), data_topic("p", "public", "orders")]

    assert topics == ["p.metadata", "p.cuts", "p.progress", "p.public.orders"]


def test_dots_of_a_name_are_no_separators() -> None:
    assert data_topic("p", "a", "b.c") != data_topic("p", "a.b", "c")


def test_topic_of_249_characters_is_taken_as_it_is_and_a_longer_one_cut() -> None:
    name = "t" * (249 - len("p.public."))
    assert data_topic("p", "public", name) == f"p.public.{name}"

    topics = [data_topic("p" * 64, *names) for name in LONG for names in ((name, "t"), ("s", name), (name, name))]
    assert len({topic.replace(".", "_") for topic in topics}) == len(topics)
    for topic in [*topics, data_topic("p", "public", name + "t")]:
        assert len(topic) <= 249
        assert re.fullmatch(r"p+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", topic)


def test_operators_own_topic_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(OperatorError, match="has 250 characters") as refused:
        data_topic("p", "public", "t", {"public.t": "t" * 250})

    assert refused.value.remedy == 'shorten [topics.names] "public.t"'


def test_operators_own_topic_name_is_taken() -> None:
    assert data_topic("p", "public", "$" * 63, {"public." + "$" * 63: "money"}) == "money"


@pytest.mark.parametrize("topic", ["", ".", "..", "a b", "é", "a\n"])
def test_operators_topic_name_that_kafka_refuses_is_refused(topic: str) -> None:
    with pytest.raises(OperatorError) as refused:
        data_topic("p", "public", "orders", {"public.orders": topic})

    assert "[topics.names]" in refused.value.remedy


def test_topics_equal_after_dots_become_underscores_are_refused_with_the_remedy() -> None:
    with pytest.raises(OperatorError, match=r"both p\.a_b\.c and p\.a\.b_c") as refused:
        refuse_topic_collisions(["p.x.y", "p.a_b.c", "p.a.b_c"])

    assert "[topics.names]" in refused.value.remedy


def test_two_tables_with_one_topic_are_refused() -> None:
    with pytest.raises(OperatorError, match="two tables have the topic money"):
        refuse_topic_collisions(["money", "p.public.orders", "money"])


def test_topics_that_differ_by_more_than_dots_are_taken() -> None:
    refuse_topic_collisions(["p.a.b", "p.a.c", "p.cuts"])


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 64])
def test_pipeline_name_of_letters_digits_dash_underscore_is_taken(name: str) -> None:
    assert is_pipeline_name(name)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "é", "x" * 65, "a\n"])
def test_other_pipeline_names_are_refused(name: str) -> None:
    assert not is_pipeline_name(name)


@given(st.lists(pg_names(), unique=True, max_size=12))
@example(["a", "A", "_u0041", "_u0061"])
@example(["ab", "aB", "Ab", "AB"])
@example(["_walbridge", "_WALBRIDGE", "_u005fwalbridge"])
@example(["s", "ſ", "S", "k", "\u212a", "ß", "ẞ", "ς", "σ"])
@example(["\U00010400", "\U00010428"])
@example(["1", "_u0031"])
def test_lake_column_names_differ_by_more_than_case_and_avoid_what_delta_refuses(columns: list[str]) -> None:
    names = lake_column_names(columns)

    assert len({name.lower() for name in names} | {"_walbridge"}) == len(columns) + 1
    assert len({name.upper() for name in names} | {"_WALBRIDGE"}) == len(columns) + 1
    assert not set(" ,;{}()\n\t=") & set("".join(names))


@given(st.lists(pg_names(), unique=True, max_size=12))
def test_lake_column_name_unescapes_to_the_column(columns: list[str]) -> None:
    assert [unescape(name) for name in lake_column_names(columns)] == columns


def test_lake_column_names_that_delta_takes_stay() -> None:
    assert lake_column_names(["id", "Größe", "a.b", 'a"b']) == ["id", "Größe", "a.b", 'a"b']
