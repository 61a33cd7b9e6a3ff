"""A column's type that is altered stops nothing, and the lake equals the source again by itself (I7, I8)."""

from __future__ import annotations

import pytest

from tests.faults.tables.test_ddl_told import tell
from tests.faults.tables.test_table_trouble import barriers_of, states
from tests.fix_pipeline import PipelineUnderTest
from tests.in_soak import in_soak
from tests.wait import wait_until

MADE = """
    CREATE TYPE {0}_e AS ENUM ('sad', 'ok'); CREATE TYPE {0}_i AS ENUM ('ok', 'a, b');
    CREATE TABLE {0} (id int PRIMARY KEY, a numeric(12,4), b int[], c {0}_e, d varchar(10), e text, f timestamp(0),
        g int, h real, i {0}_i[], j jsonb, k uuid, l smallint[], m real[], n varchar(3)[], o text);
    INSERT INTO {0} VALUES (1, 1.5, '{{1,2}}', 'ok', 'd', 'e', '2024-01-01', -7, 0.1, '{{"a, b",NULL}}',
        '{{"b": 1.50}}', md5('k')::uuid, '{{-1}}', '{{0.1}}', '{{n,"a ,"}}', '{{"b":  1}}');
    INSERT INTO {0} (id, b, i, l, m, n) VALUES (5, '{{}}', '{{}}', '{{}}', '{{}}', '{{}}'),
        (2, '{{{{1}},{{2}}}}', '[0:0]={{ok}}', '{{{{-1}}}}', '{{{{0.1}}}}', '{{{{NULL}}}}')
"""
FOLLOWED = {
    "longer": "ALTER TABLE {0} ALTER d TYPE varchar(20)",
    "unlimited": "ALTER TABLE {0} ALTER d TYPE text",
    "unlimited, as it was": "ALTER TABLE {0} ALTER e TYPE varchar",
    "more digits": "ALTER TABLE {0} ALTER a TYPE numeric(14,4)",
    "no scale": "ALTER TABLE {0} ALTER a TYPE numeric",
    "finer": "ALTER TABLE {0} ALTER f TYPE timestamp(3)",
    "names swapped": "ALTER TABLE {0} RENAME d TO t; ALTER TABLE {0} RENAME e TO d; ALTER TABLE {0} RENAME t TO e",
    "another of one name": "ALTER TABLE {0} DROP d; ALTER TABLE {0} ADD d int",
    "type dropped": "UPDATE {0} SET c = 'sad'; ALTER TABLE {0} DROP c; DROP TYPE {0}_e",
}
"""Without a word of the rows that were there, and without a copy."""
COPIED = {
    "integers": "ALTER TABLE {0} ALTER b TYPE bigint[]",
    "labels": "ALTER TABLE {0} ALTER c TYPE text",
    "number": "ALTER TABLE {0} ALTER id TYPE bigint",
    "wider number": "ALTER TABLE {0} ALTER g TYPE bigint, ALTER h TYPE float8",
    "computed": "ALTER TABLE {0} ALTER a TYPE numeric USING a * 2",
    "arrays": "ALTER TABLE {0} ALTER l TYPE int[], ALTER b TYPE bigint[] USING b::bigint[]",
    "arrays of labels and texts": "ALTER TABLE {0} ALTER i TYPE text[], ALTER n TYPE varchar[]",
    "labels, without a limit": "ALTER TABLE {0} ALTER c TYPE character varying USING c::character varying",
    "texts": "ALTER TABLE {0} ALTER j TYPE text, ALTER k TYPE varchar, ALTER d TYPE varchar(20)",
    "json": "ALTER TABLE {0} ALTER o TYPE json USING CAST(o AS json)",
    "arrays of floats": "ALTER TABLE {0} ALTER m TYPE float8[]",
    "same name": "ALTER TABLE {0} DROP e; ALTER TABLE {0} ADD e text",
}
"""Postgres rewrites the rows, and nobody tells whether it changed their values; or rows lost some."""
EVERY = FOLLOWED | COPIED
TOLD = {
    "integers",
    "labels",
    "wider number",
    "same name",
    "arrays",
    "arrays of labels and texts",
    "labels, without a limit",
    "texts",
    "json",
}
"""Where a row tells that the command does nothing else, or which columns there are by then, it costs no copy."""


@pytest.mark.variant(of="test_numbers_that_are_cast_to_wider_ones_need_no_copy_where_that_is_told")
@pytest.mark.parametrize("how", [in_soak("slow"), in_soak("fast"), in_soak("quiet"), "told"])
def test_types_are_altered_in_every_way(pipeline: PipelineUnderTest, how: str) -> None:
    """One statement after the other, all of them in one transaction with changes, or without any change behind them;
    and where the source tells DDL."""
    execute, producer = pipeline.database.execute, pipeline.producer
    acts = {f"t{number}": act for number, act in enumerate(EVERY.values())}
    for name in acts:
        execute(MADE.format(name))
    if how == "told":
        tell(pipeline.database)
    producer.publish(*acts)
    running = producer.start_streaming()
    pipeline.check_equal()
    for name, act in acts.items():
        written = f"INSERT INTO {name} (id) VALUES (3); UPDATE {name} SET id = 4 WHERE id = 3"
        if how == "fast":
            execute(f"BEGIN; UPDATE {name} SET e = 'x', d = 'y'; {act.format(name)}; {written}; COMMIT")
        else:
            execute(act.format(name))
            if how in ("slow", "told"):
                execute(written)
    assert running.process.poll() is None, running.log[-3000:]
    wait_until(lambda: _equals(pipeline), "the lake to equal its source", 240)  # each look is a run of the job
    copied = {act for act, name in zip(EVERY, acts, strict=True) if "copy_begin" in barriers_of(producer, name)}
    assert copied == COPIED.keys() - (TOLD if how == "told" else set())
    assert running.process.poll() is None, running.log[-3000:]


def _equals(pipeline: PipelineUnderTest) -> bool:
    """Every table is current, and the source's."""
    if states(pipeline.producer) != {"current"}:
        return False
    pipeline.catch_up()
    return not [result for result in pipeline.compared() if not result.equal or result.in_flux]
