"""A table that is called current equals its source (I8) whatever its owner does to it: histories, in several ways."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.fix_producer import ProducerUnderTest
from tests.soak.histories.every_type import of_types
from tests.soak.histories.histories import History, of_file
from tests.soak.histories.histories_run import BY_ROOTS, HistoriesRun, Way
from tests.soak.histories.rows_as_copied import rows_let_through

pytestmark = [pytest.mark.soak, pytest.mark.servers]
FILES = {
    "among_rows": ("among_rows",),
    "catalogues": ("catalogues",),
    "columns": ("columns", "generated", "types"),
    "dependencies": ("dependencies",),
    "keys": ("keys", "identities", "odd_keys"),
    "partitions": ("partitions", "attached", "swapped_partitions"),
    "tables": ("tables", "emptied", "names"),
    "transitions": ("transitions",),
    "two_sessions": ("two_sessions",),
    "values": ("migrations", "stored_values"),
}
"""By subject: those of one are played side by side."""
OF_LIBRARIES = {"keys": ("libraries",)}
PUBLICATIONS = (
    "in_transaction", "emptied", "of_schema", "of_root", "of_leaf", "one", "two", 'p.ub "q", ä',
)  # fmt: skip
"""What the histories of publications make."""
UNFIT = ("partitions_become_unlogged_and_logged",)
"""A partition of it stays unlogged."""


def histories(*files: str) -> list[History]:
    """Those of these files; HISTORIES has the words that their names have."""
    found = [each for file in files for each in of_file(file)]
    words = [word for word in os.environ.get("HISTORIES", "").split(",") if word]
    return [each for each in found if not words or any(word in each.name for word in words)]


@pytest.mark.parametrize("way", [Way.FOLLOWED, Way.AWAY, Way.RESTARTED])
@pytest.mark.parametrize("subject", FILES)
def test_tables_called_current_are(producer_of_all: ProducerUnderTest, subject: str, way: Way) -> None:
    run = HistoriesRun(producer_of_all, histories(*FILES[subject]), UNFIT)
    run.begin()
    run.play(way)


@pytest.mark.parametrize("subject", FILES)
def test_they_are_where_ddl_is_told(producer_of_all: ProducerUnderTest, subject: str) -> None:
    run = HistoriesRun(producer_of_all, histories(*FILES[subject]), UNFIT)
    run.begin(tells_ddl=True)
    run.play()


@pytest.mark.parametrize(
    "options", ["", "WITH (publish_generated_columns = stored, publish_via_partition_root = true)"]
)
@pytest.mark.parametrize("way", [Way.FOLLOWED, Way.AWAY])
@pytest.mark.parametrize("subject", ["among_rows", "columns", "keys", "partitions"])
def test_they_are_with_leaves_or_generated_columns_published(
    producer_of_all: ProducerUnderTest, subject: str, way: Way, options: str
) -> None:
    run = HistoriesRun(producer_of_all, histories(*FILES[subject]), UNFIT)
    run.begin(options)
    run.play(way)


@pytest.mark.parametrize("major", [12, 13, 15, 17])
@pytest.mark.parametrize("subject", FILES)
def test_on_older_versions_too(producer_on: Callable[[int], ProducerUnderTest], subject: str, major: int) -> None:
    """They have ICU, unlike the embedded one."""
    run = HistoriesRun(producer_on(major), histories(*FILES[subject], *OF_LIBRARIES.get(subject, ())), UNFIT)
    run.begin(BY_ROOTS if major > 12 else "")
    run.play(Way.AWAY)


@pytest.mark.parametrize("major", [12, 14, 16])
@pytest.mark.parametrize("subject", ["among_rows", "catalogues", "dependencies", "two_sessions"])
def test_they_are_on_older_versions_where_transactions_are_published_in_parts(
    producer_on: Callable[[int], ProducerUnderTest], subject: str, major: int
) -> None:
    producer = producer_on(major)
    producer.settings["producer"] = {"batch_rows_max": 3}
    run = HistoriesRun(producer, histories(*FILES[subject]), UNFIT)
    run.begin(BY_ROOTS if major > 12 else "")
    run.play(Way.FOLLOWED)


@pytest.mark.parametrize("way", [Way.FOLLOWED, Way.AWAY])
def test_values_and_keys_of_every_type(producer_of_all: ProducerUnderTest, way: Way) -> None:
    run = HistoriesRun(producer_of_all, of_types())
    run.begin()
    run.play(way)


@pytest.mark.parametrize("two_phase", [False, True])
def test_prepared_transactions_with_ddl(producer_of_all: ProducerUnderTest, *, two_phase: bool) -> None:
    producer_of_all.settings["postgres"] = {"two_phase": two_phase}
    run = HistoriesRun(producer_of_all, histories("prepared"))
    run.begin()
    run.play(Way.AWAY)


@pytest.mark.parametrize("way", [Way.SETTLED, Way.AWAY, Way.RESTARTED])
def test_members_of_publications_are_altered(producer_of_all: ProducerUnderTest, way: Way) -> None:
    producer_of_all.settings["postgres"] = {"publications": ["listed", "filtered", "in_schema"]}
    run = HistoriesRun(producer_of_all, histories("members"), source=rows_let_through)
    run.begin()
    run.play(way)


@pytest.mark.parametrize("major", [15, 17, 18])
@pytest.mark.parametrize("way", [Way.SETTLED, Way.FOLLOWED, Way.AWAY, Way.RESTARTED])
def test_several_publications_are_altered(
    producer_on: Callable[[int], ProducerUnderTest], way: Way, major: int
) -> None:
    producer = producer_on(major)
    producer.settings["postgres"] = {"publications": [*PUBLICATIONS]}
    run = HistoriesRun(producer, histories("publications"), source=rows_let_through)
    run.begin()
    run.play(way)
