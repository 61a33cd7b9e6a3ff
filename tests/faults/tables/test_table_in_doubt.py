"""A table of which somebody proved that it differs in the lake, where settings say that this stops all (I8)."""

from __future__ import annotations

import pytest

from tests.faults.copies.test_table_copied import table
from tests.faults.followed import settings_of
from tests.fix_producer import ProducerUnderTest
from tests.wait import wait_until
from walbridge.schemas.control.table_request import TableRequest
from walbridge.tables.copy import copy
from walbridge.tables.request import write

pytestmark = pytest.mark.fault


def test_producer_that_stops_for_a_table_that_differs_goes_on_once_its_remedy_was_followed(
    producer: ProducerUnderTest,
) -> None:
    """The doubt is read at each start, until a copy is asked for behind it."""
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    producer.publish("t")
    producer.settings["producer"] = {"on_table_error": "stop"}
    producer.start_streaming().stop()
    relation_id = producer.database.value("SELECT 't'::regclass::oid::int")
    write(settings_of(producer), [TableRequest.of_doubt(relation_id)])

    said = producer.refusal()

    assert "table public.t in the lake was compared with its source, and rows of it differ" in said
    assert "walbridge copy public.t" in said
    assert copy(settings_of(producer), ["public.t"], wait=False, say=print) == 0
    producer.start_streaming().wait_for_log("table is copied")
    wait_until(lambda: (now := table(producer, "t")) is not None and now.state == "current", "the copy")
    producer.check_equal()
