"""Small mistakes made in the core on purpose: the simulation must find every one of them.

Those of which a fast test is enough to notice them are in ``tests/mutants``.
"""

from dataclasses import replace

import pytest

from tests.mutants.mutant import Mutant, made
from tests.simulation.run import run_seed
from walbridge.producer.batch.cut_maker import CutMaker
from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.follow import follow_once
from walbridge.producer.kafka.publisher import Publisher
from walbridge.producer.session.fast_path import FastPath
from walbridge.producer.session.keepalives import Keepalives
from walbridge.producer.session.transactions.pending_transactions import PendingTransactions
from walbridge.producer.session.transactions.replay import Replay
from walbridge.producer.session.transactions.transaction import TransactionTracker
from walbridge.producer.session.transactions.transaction_spool import Spooled

pytestmark = pytest.mark.simulation
SEEDS_MAX = 1_000
"""The last mistake is found within 394."""

MUTANTS = {
    "a transaction that begins where the last one ended is skipped": Mutant(
        TransactionTracker.begin, "message.final_lsn < self._done", "message.final_lsn <= self._done", seed=15
    ),
    "whole transactions are not skipped": Mutant(
        TransactionTracker.begin, "message.final_lsn < self._done", "False", seed=17
    ),
    "resume publishes the last skipped row again": Mutant(
        TransactionTracker.receive_change,
        "self.publishes = True",
        "self.publishes = True; return True",
        seed=5,
    ),
    "resume does not restore the ordinal": Mutant(
        TransactionTracker.receive_change, "transaction.ordinal = resume.next_ordinal", "pass", seed=6
    ),
    "what a batch holds is confirmed before its commit": Mutant(
        CutMaker.close_without_look,
        'kill_point("produce:before-commit")',
        "self._stream.confirmed = max(self._stream.confirmed, self._out.batch.end_lsn or 0)\n"
        '    self._stream.send_status(); kill_point("produce:before-commit")',
    ),
    "what was received is confirmed, not what was published": Mutant(
        CutMaker._after_cut, "self._out.tracker.confirmable_lsn", "self._stream.received"
    ),
    "a keepalive is confirmed at once": Mutant(
        Keepalives.receive,
        "self._stream.note_received(frame.wal_end)",
        "self._stream.note_received(frame.wal_end); self._stream.confirm(frame.wal_end)",
    ),
    "an idle cut is made inside a half published transaction": Mutant(
        CutMaker.idle_cut, "self._out.tracker.progress.split is not None", "False", seed=304
    ),
    "progress is not read again at a restart of the stream": Mutant(
        follow_once, "progress = read_own_progress(settings)", "progress = parts.out.tracker.progress"
    ),
    "a replaced instance goes on without a look at who wrote before it": Mutant(
        Publisher.begin, "self.on_replaced()", "pass", seed=17
    ),
    "what another producer announced is not read": Mutant(
        follow_once, "parts.tables.versions.read()", "pass", seed=393
    ),
    "an unknown outcome of a commit is taken for success": Mutant(
        Publisher._commit_in_slices, "raise self._aborted(reason) from None", "break"
    ),
    "a cut inside a transaction says that it is complete": Mutant(
        ProgressTracker.close, "complete = split is None", "complete = True"
    ),
    "a prepared transaction does not hold the slot back": Mutant(
        CutMaker._bound_floor, "min(received, held)", "received"
    ),
    "a prepared transaction is forgotten at the next cut": Mutant(
        PendingTransactions._keep_prepared,
        "self._prepared[key] = prepared",
        "self._prepared = {key: prepared}",
        seed=44,
    ),
    "changes of an aborted subtransaction are published": Mutant(Spooled.frames, "if xid not in aborted", "if True"),
    "a streamed transaction that is published already comes again": Mutant(
        Replay.receive, "Begin(committed.commit_lsn,", "Begin(committed.end_lsn,"
    ),
    "a cut does not move on what is done": Mutant(
        ProgressTracker.close, "done=Lsn(max(done, self.progress.done))", "done=self.progress.done"
    ),
    "a split transaction is counted from its split on": Mutant(
        TransactionTracker.begin, "dict(resume.events)", "dict.fromkeys(resume.events, 0)", seed=6
    ),
    "plain rows are not counted in their transaction": Mutant(
        FastPath.publish, "transaction.count(writer.relation.table.relation_id, 1)", "pass"
    ),
    "a key that changes leaves no tombstone behind": Mutant(
        RecordWriter._update_with, "*self._tombstone(before.key),", ""
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_mistake_in_the_core_is_found(mutant: Mutant) -> None:
    with made(mutant):
        seeds = (mutant.seed, *range(SEEDS_MAX))
        found = next((seed for seed in seeds if run_seed(seed).violation is not None), None)

    assert found is not None, f"not found in {SEEDS_MAX} seeds"


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_same_function_recompiled_without_the_mistake_passes(mutant: Mutant) -> None:
    """In the seed that finds the mistake first, where one is named."""
    with made(replace(mutant, mistake=mutant.text)):
        assert [run_seed(seed).violation for seed in (mutant.seed, 1, 2)] == [None] * 3
