"""A table that is copied beside its stream equals the source at every published cut (I8).

The model is a small Postgres in which commits are in the WAL before they are visible, a producer of
the real pure parts that is killed at every step, and two consumers that know only the topic. Every
copied row is compared with the source at its position, and every cut of the copied table with the
source at its LSN: no earlier value follows a newer one.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.examples import examples
from tests.in_soak import in_soak
from tests.producer.copying.copying_run import OPEN_MAX, Run, run_seed
from tests.producer.copying.small_postgres import KEYS

_which, _key = st.integers(0, OPEN_MAX - 1), st.sampled_from(KEYS[:5])
_kind = st.sampled_from((*range(9), *range(9), 9))


class CopyBesideTheStream(RuleBasedStateMachine):
    """Any order of statements, commits, chunks and kills."""

    @initialize(has_full_identity=st.booleans(), chunk_rows=st.integers(1, 2), few=st.booleans())
    def begin(self, has_full_identity: bool, chunk_rows: int, few: bool) -> None:
        window_bytes_max = 2_000 if few else 2**20
        self.run = Run(has_full_identity=has_full_identity, chunk_rows=chunk_rows, window_bytes_max=window_bytes_max)
        self.run.producer.begin_copy()

    @rule(which=_which, kind=_kind, key=_key, to=_key)
    def statement(self, which: int, kind: int, key: int, to: int) -> None:
        self.run.statement(which, kind, key, to)

    @rule(kind=_kind, key=_key, to=_key)
    def write(self, kind: int, key: int, to: int) -> None:
        self.run.write(kind, key, to)

    @precondition(lambda self: self.run.source.running)
    @rule(which=_which)
    def log_commit(self, which: int) -> None:
        self.run.log_commit(which)

    @precondition(lambda self: self.run.source.running)
    @rule(which=_which)
    def end(self, which: int) -> None:
        self.run.end(which)

    @precondition(lambda self: self.run.producer.session.received_lsn < self.run.source.wal_end)
    @rule()
    def receive(self) -> None:
        self.run.producer.receive()

    @rule()
    def go_on_with_the_chunk(self) -> None:
        self.run.producer.go_on()

    @rule(step=st.sampled_from(("write_wal", "commit", "look", "look", "look", "begin_copy", "begin_copy", "kill")))
    def other_step(self, step: str) -> None:
        getattr(self.run.source if step == "write_wal" else self.run.producer, step)()

    def teardown(self) -> None:
        if hasattr(self, "run"):
            self.run.finish()


TestCopyBesideTheStream = CopyBesideTheStream.TestCase
TestCopyBesideTheStream.settings = settings(max_examples=examples(100), stateful_step_count=60, deadline=None)


def test_copied_table_equals_the_source_at_every_cut() -> None:
    """And the runs come to what they are made for."""
    # The last: a TRUNCATE takes all listed keys after a window was opened to read them again.
    runs = [run_seed(seed) for seed in (*range(200), 32_765)]

    assert len({why for run in runs for why in run.producer.voids}) == 4
    assert sum(run.producer.chunks for run in runs) > 500
    assert sum(run.producer.moved for run in runs) > 10
    assert sum(run.producer.asked for run in runs) > 10


@pytest.mark.simulation
@pytest.mark.parametrize("seeds", [range(200, 1_000), in_soak(range(1_000, 10_000))], ids=repr)
def test_copied_table_equals_the_source_at_every_cut_of_many_runs(seeds: range) -> None:
    for seed in seeds:
        run_seed(seed)
