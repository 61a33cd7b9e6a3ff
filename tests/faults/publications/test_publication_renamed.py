"""A publication that had another name while its tables changed, and has its own again, on each Postgres (I7, I8).

Until 17 the server looks a name up as of the change, and every session ends there. From 18 on it leaves the change out
without a word.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.followed import copy_all_again, settings_of
from tests.fix_producer import ProducerUnderTest, refusal_of
from tests.in_soak import others_in_soak
from tests.postgres_versions import MAJORS
from tests.wait import wait_until
from walbridge.check.verb import all_findings
from walbridge.schemas.errors import COPY_ALL
from walbridge.status.read_status import read_status
from walbridge.status.show import as_text

pytestmark = pytest.mark.fault
IN_EACH_RUN = (17,)
LEFT_OUT_SINCE = 18

# One transaction, so no look comes between.
RENAMED_AND_BACK = (
    "ALTER PUBLICATION walbridge RENAME TO other; INSERT INTO t VALUES (2); ALTER PUBLICATION other RENAME TO walbridge"
)


def made(producer: ProducerUnderTest) -> ProducerUnderTest:
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)")
    producer.publish("t", "u")
    return producer


@pytest.mark.variant(of="test_change_of_the_publication_under_a_running_producer_stops_it_where_settings_say_so")
@pytest.mark.parametrize(
    "major",
    others_in_soak([major for major in MAJORS if major < LEFT_OUT_SINCE], IN_EACH_RUN),
)
def test_change_under_a_name_that_was_not_there_asks_for_a_copy_of_all_tables_which_mends_it(
    producer_on: Callable[[int], ProducerUnderTest], major: int
) -> None:
    """The start finds nothing missing, and no session gets any further: ``check`` and ``status`` say why."""
    producer = made(producer_on(major))
    running = producer.start_streaming()
    producer.database.execute(RENAMED_AND_BACK)
    for words in (refusal_of(running), producer.refusal()):
        assert 'publication "walbridge" does not exist' in words
        what, _, remedy = words.removeprefix("error: ").strip().partition("\nremedy: ")
        first, _, then = remedy.partition("; then ")
        assert first.startswith("see that each publication is there under its name")
        assert then == COPY_ALL
    settings = settings_of(producer)
    assert COPY_ALL in {each.remedy for each in all_findings(settings) if each.text == what}
    assert f"{what}\n" in as_text(read_status(settings))

    assert copy_all_again(producer) == what

    producer.start_streaming()
    producer.database.execute("INSERT INTO t VALUES (3); INSERT INTO u VALUES (3)")
    assert {row["id"] for row in producer.check_equal().rows("public", "t")} == {2, 3}


@pytest.mark.variant(of="test_change_of_the_publication_under_a_running_producer_stops_it_where_settings_say_so")
def test_change_that_was_left_out_under_another_name_is_copied_while_the_stream_goes_on(
    producer: ProducerUnderTest,
) -> None:
    made(producer)
    running = producer.start_streaming()
    producer.database.execute(RENAMED_AND_BACK)
    running.wait_for_log("publication walbridge was altered since table public.t was last looked at")
    wait_until(lambda: running.log.count("table is copied") == 2, "both tables to be copied")
    producer.database.execute("INSERT INTO t VALUES (3)")
    assert {row["id"] for row in producer.check_equal().rows("public", "t")} == {2, 3}
