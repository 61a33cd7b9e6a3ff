"""Whatever is done to the tables of a database, nothing stops, and every table called current equals it (I7, I8).

All kinds of DDL are drawn, several in a transaction, within savepoints and rolled back, mixed with changes of rows,
while the producer is killed. What the topics tell is replayed without Spark. ``FAULT_SEED=7`` draws the same again.
"""

from __future__ import annotations

import os

import pytest

from tests.faults.differential.run import PUBLISHED, Differential
from tests.faults.seed import fault_seed
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import in_variants

pytestmark = pytest.mark.fault
STATEMENTS, CHECKS = 120, 1
SOAK_STATEMENTS, SOAK_CHECKS = 20_000, 120


@pytest.mark.parametrize("tells_ddl", [False, in_variants(True)])
def test_tables_called_current_equal_their_source_whatever_is_done_to_them(
    producer: ProducerUnderTest, tells_ddl: bool
) -> None:
    """Nothing is copied again for a change that keeps every value and that the catalogue tells."""
    _run(Differential(producer, fault_seed(), "all", tells_ddl=tells_ddl), STATEMENTS, CHECKS)


@pytest.mark.soak
@pytest.mark.parametrize("tells_ddl", [False, True])
@pytest.mark.parametrize("how", PUBLISHED)
def test_tables_called_current_equal_their_source_for_long(
    producer: ProducerUnderTest, how: str, tells_ddl: bool
) -> None:
    statements = int(os.environ.get("STATEMENTS") or SOAK_STATEMENTS)
    _run(
        Differential(producer, fault_seed(), how, tells_ddl=tells_ddl),
        statements,
        max(SOAK_CHECKS * statements // SOAK_STATEMENTS, 4),
    )


def _run(differential: Differential, statements: int, checks: int) -> None:
    try:
        differential.run(statements, checks)
    finally:
        print(differential.report(), *differential.needless, sep="\n")
    assert not differential.needless, "\n".join(differential.needless)
