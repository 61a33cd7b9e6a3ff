"""Types that are altered before anybody saw a column of them: rows that came between read otherwise by now (I8)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.tables.test_ddl_told import tell
from tests.faults.tables.test_unsaid_rows import act, check_copied
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import in_soak, others_in_soak
from tests.postgres_versions import MAJORS
from tests.wait import wait_until

pytestmark = pytest.mark.fault

MADE = """
    CREATE TYPE {0}_e AS ENUM ('sad', 'ok', 'old'); ALTER TYPE {0}_e RENAME VALUE 'old' TO 'new';
    CREATE TYPE {0}_c AS (e {0}_e, n int, gone int); ALTER TYPE {0}_c DROP ATTRIBUTE gone;
    CREATE DOMAIN {0}_d AS {0}_e; CREATE TYPE {0}_r AS RANGE (subtype = {0}_e);
    CREATE TABLE {0} (id int PRIMARY KEY, v text); INSERT INTO {0} VALUES (1, 'a'), (2, 'b')
"""
USED = "ALTER TABLE {0} ADD c {0}_%s; UPDATE {0} SET c = %s WHERE id = 1"
ENUM = USED % ("e", "'ok'")
COMPOSITE = USED % ("c", "ROW('ok', 1)")
RENAMED = "ALTER TYPE {0}_e RENAME VALUE 'ok' TO 'fine'"
TAKEN = "ALTER TYPE {0}_e RENAME VALUE 'new' TO 'ok'"
AGAIN = "ALTER TABLE {0} ALTER c TYPE {0}_%s"
ALTERED = {
    "enum": f"{ENUM}; {RENAMED}",
    "array": f"{USED % ('e[]', 'ARRAY[NULL]::{0}_e[]')}; UPDATE {{0}} SET c[1] = 'ok'; {RENAMED}",
    "domain": f"{USED % ('d', chr(39) + 'ok' + chr(39))}; {RENAMED}",
    "range": f"{USED % ('r', chr(39) + '[sad,ok]' + chr(39))}; {RENAMED}",
    "enum in a composite": f"{COMPOSITE}; {RENAMED}",
    "attribute dropped": f"{COMPOSITE}; ALTER TYPE {{0}}_c DROP ATTRIBUTE n",
    "attribute added": f"{COMPOSITE}; ALTER TYPE {{0}}_c ADD ATTRIBUTE m int",
    "no attribute left": f"{COMPOSITE}; ALTER TYPE {{0}}_c DROP ATTRIBUTE n; ALTER TYPE {{0}}_c DROP ATTRIBUTE e",
    "in one transaction": f"BEGIN; {ENUM}; {RENAMED}; COMMIT",
    "with savepoints": f"BEGIN; SAVEPOINT a; {ENUM}; RELEASE a; SAVEPOINT b; {RENAMED}; RELEASE b; COMMIT",
    "outside of the savepoint": f"BEGIN; SELECT txid_current(); SAVEPOINT a; {ENUM}; RELEASE a; {RENAMED}; COMMIT",
    "column given its type again": f"BEGIN; {COMPOSITE}; ALTER TYPE {{0}}_c DROP ATTRIBUTE n; {AGAIN % 'c'}; COMMIT",
    "given again with the attribute": f"{COMPOSITE}; BEGIN; ALTER TYPE {{0}}_c DROP ATTRIBUTE n; {AGAIN % 'c'}; COMMIT",
    "given again with the name": f"{ENUM}; BEGIN; {RENAMED}; {TAKEN}; {AGAIN % 'e'}; COMMIT",
    "given a domain of it": f"BEGIN; {ENUM}; {RENAMED}; {TAKEN}; {AGAIN % 'd'}; COMMIT",
    "column renamed behind": f"{ENUM}; {RENAMED}; ALTER TABLE {{0}} RENAME c TO d; INSERT INTO {{0}} VALUES (3)",
}
NEW = "CREATE TYPE {0}_n AS ENUM ('x', 'y')"
NEW_RENAMED = "ALTER TYPE {0}_n RENAME VALUE 'x' TO 'z'"
NEW_USED = "ALTER TABLE {0} ADD c {0}_n; UPDATE {0} SET c = 'z'"
NEW_USED_TOO = "UPDATE {0} SET c = '%s' WHERE id = 1"
TWICE = "ALTER TYPE {0}_n RENAME VALUE 'y' TO 'x'"
ADDED = "ALTER TYPE {0}_n ADD VALUE 'z'; ALTER TYPE {0}_n ADD VALUE 'late'"
BOOKED = "UPDATE {0} SET v = 'booked' WHERE id = 2"
NEW_NOT_NULL = "ALTER TABLE {0} ADD c {0}_n NOT NULL DEFAULT 'x'; ALTER TABLE {0} ALTER c DROP DEFAULT"
UNCERTAIN = {
    "altered before": f"{RENAMED}; {USED % ('e', chr(39) + 'fine' + chr(39))}",
    "made and altered before": f"{NEW}; {NEW_RENAMED}; {NEW_USED}",
    "attribute added before": f"ALTER TYPE {{0}}_c ADD ATTRIBUTE m int; {COMPOSITE.replace('1)', '1, 2)')};"
    "ALTER TYPE {0}_c RENAME ATTRIBUTE m TO o",
    "with savepoints, all": f"BEGIN; {NEW}; SAVEPOINT a; {NEW_RENAMED}; RELEASE a; SAVEPOINT b; {NEW_USED}; COMMIT",
}
"""Nothing tells that who altered the type had ended when the column came."""
KEPT = {
    "altered long before": ENUM,
    "composite altered long before": COMPOSITE,
    "made before": f"{NEW}; {NEW_USED.replace('z', 'x')}",
    "all at once": f"BEGIN; {NEW}; {NEW_RENAMED}; {NEW_USED}; COMMIT",
    "several renamed, all at once": f"BEGIN; {NEW}; {NEW_RENAMED}; {TWICE}; {NEW_USED}; {NEW_USED_TOO % 'x'}; COMMIT",
    "several added before": f"BEGIN; {NEW}; {ADDED}; ALTER TABLE {{0}} ADD c {{0}}_n; COMMIT; {NEW_USED_TOO % 'late'}",
    "by a migration": f"BEGIN; {BOOKED}; {NEW}; {NEW_NOT_NULL}; COMMIT; {NEW_USED_TOO % 'y'}",
    "by several migrations": f"BEGIN; {BOOKED}; {NEW}; COMMIT; BEGIN; {BOOKED}; ALTER TABLE {{0}} ADD c {{0}}_n;"
    f"COMMIT; {NEW_USED_TOO % 'x'}; BEGIN; {BOOKED}; UPDATE {{0}} SET c = 'y' WHERE c IS NULL; COMMIT;"
    f"BEGIN; {BOOKED}; ALTER TABLE {{0}} ALTER c SET DEFAULT 'x', ALTER c SET NOT NULL; COMMIT; {BOOKED}",
    "attribute renamed": f"{COMPOSITE}; ALTER TYPE {{0}}_c RENAME ATTRIBUTE n TO m",
}


@pytest.mark.variant(of="test_table_that_is_rewritten_is_copied_again_and_one_whose_values_stay_is_not")
@pytest.mark.parametrize("tells_ddl", [False, in_soak(True)])
@pytest.mark.parametrize("major", others_in_soak(MAJORS, MAJORS[-1:]))
def test_table_with_a_column_of_a_type_that_was_altered_behind_it_is_copied_again(
    producer_on: Callable[[int], ProducerUnderTest], major: int, *, tells_ddl: bool
) -> None:
    """A type that was made or altered before costs nothing, but where nobody looked between that and the column."""
    producer = producer_on(major)
    acts = {**ALTERED, **UNCERTAIN, **KEPT}
    tables = {f"t{number}": what for number, what in enumerate(acts)}
    for name in tables:
        producer.database.execute(MADE.format(name))
    if tells_ddl:
        tell(producer.database)
    producer.publish(*tables)
    running = producer.start_streaming()
    producer.check_equal()
    running.stop()
    for name, what in tables.items():
        act(producer, acts[what].format(name))
    running = producer.start_streaming()
    check_copied(producer, running, {name: what not in KEPT for name, what in tables.items()})


@pytest.mark.variant(of="test_table_that_is_rewritten_is_copied_again_and_one_whose_values_stay_is_not")
@pytest.mark.parametrize("major", [in_soak(12), 0])
def test_type_that_is_altered_by_who_had_written_before_the_column_came_has_its_table_copied_again(
    producer: ProducerUnderTest, producer_on: Callable[[int], ProducerUnderTest], major: int
) -> None:
    """I8: an xid below that of who added the column. One that had ended before a look costs nothing."""
    producer = producer_on(major) if major else producer
    for name in ("late", "early", "other"):
        producer.database.execute(MADE.format(name))
    producer.publish("late", "early", "other")
    running = producer.start_streaming()
    producer.check_equal()
    act(producer, RENAMED.format("early"))
    above = producer.database.value("SELECT txid_current()")
    wait_until(lambda: is_ended_below(producer, above), "the slot to hold back nothing of before")
    with producer.database.connect() as altering, altering.transaction():
        altering.execute("INSERT INTO other VALUES (5, 'is written first')")
        act(producer, f"{ENUM}; {(USED % ('e', chr(39) + 'fine' + chr(39))).replace('{0}', 'early')}".format("late"))
        altering.execute(RENAMED.format("late").encode())
    check_copied(producer, running, {"late": True, "early": False, "other": False})


def is_ended_below(producer: ProducerUnderTest, xid: int) -> bool:
    """A checkpoint says in the WAL which transactions are running."""
    producer.database.execute("UPDATE other SET v = 'written' WHERE id = 1; CHECKPOINT")
    known = "SELECT catalog_xmin::text::bigint > %s FROM pg_replication_slots WHERE slot_name = '%s'"
    return bool(producer.database.value(known % (xid % (1 << 32), producer.slot)))
