"""Losses and duplicates that other pipelines had, each as the smallest history that shows it.

Numbers are those of the reports. Every case runs with its faults at each step in turn, and the
model decides (``model.py``, ``postgres.py``); nothing is asserted twice here.
"""

import pytest

from tests.in_soak import in_soak
from tests.simulation.cases import case_of, history_of, nothing, refused, with_fault_at_every_step
from tests.simulation.history import CONSISTENT_POINT, KEYED, KEYLESS, OTHER, Writer
from tests.simulation.kafka_producer import LOST_BATCH
from tests.simulation.left_out import without_copy
from tests.simulation.run import Case, Run, run_seed, settings_of
from walbridge.producer.postgres.facts import ServerIdentity
from walbridge.schemas.position import Lsn

pytestmark = [pytest.mark.simulation, pytest.mark.usefixtures("steps_apart")]


def _copy_in(writer: Writer) -> None:
    for n in range(6):
        writer.insert(KEYED, n, "copied", shares_lsn=True)


def _one(writer: Writer) -> None:
    writer.insert(KEYED, 1, "one")


def _moves(writer: Writer) -> None:
    for n in range(3):
        writer.move(KEYED, n, n + 1, "moved")


def _many(writer: Writer) -> None:
    for n in range(6):
        writer.insert(KEYED, n, "many")
        writer.insert(OTHER, n, "many")


@pytest.mark.variant(of="test_every_fault_and_many_restarts_leave_each_event_in_kafka_once")
@pytest.mark.parametrize("fault", ["crash", in_soak("disconnect"), in_soak("Postgres crash")])
def test_rows_of_one_copy_share_an_lsn_and_survive_a_restart_between_them(fault: str) -> None:
    """I4. debezium/dbz#1554: the first row of an LSN was taken for all of them."""
    assert refused(with_fault_at_every_step(case_of(_copy_in, _copy_in), fault)) == []


@pytest.mark.variant(of="test_every_fault_and_many_restarts_leave_each_event_in_kafka_once")
def test_end_of_a_commit_is_the_first_row_of_the_next_transaction_and_neither_is_lost() -> None:
    """I4. debezium/dbz#76 (DBZ-9149): the stored commit LSN matched the next transaction's first row."""
    case = case_of(_one, _one, _one, rows_max=1)

    assert refused(with_fault_at_every_step(case, "Postgres crash", "crash")) == []


def test_begin_that_shares_the_last_commits_lsn_is_not_dropped() -> None:
    """I4. FLINK-39265 (apache/flink-cdc#4323, #1893), risingwavelabs/risingwave#14060."""
    case = case_of(_copy_in, _one, _copy_in, rows_max=50)

    assert refused(with_fault_at_every_step(case, "Postgres crash", "disconnect")) == []


@pytest.mark.variant(of="test_every_fault_and_many_restarts_leave_each_event_in_kafka_once")
def test_key_change_over_a_batch_edge_is_whole_after_a_restart() -> None:
    """I3, I4. debezium/dbz#2549: progress moved with the first of the records that one update becomes."""
    assert refused(with_fault_at_every_step(case_of(_moves, rows_max=1), "crash")) == []
    assert refused(with_fault_at_every_step(case_of(_moves, _one, rows_max=2, partitions=3), "disconnect")) == []


@pytest.mark.variant(of="test_every_fault_and_many_restarts_leave_each_event_in_kafka_once")
def test_last_delivery_callback_does_not_speak_for_other_partitions() -> None:
    """I1. yugabyte/yugabyte-db#33126: callbacks of partitions are unordered, and the last one won."""
    case = case_of(_many, _many, rows_max=50, partitions=3)

    assert refused(with_fault_at_every_step(case, "delivery failure")) == []


@pytest.mark.variant(of="test_every_fault_and_many_restarts_leave_each_event_in_kafka_once")
def test_record_that_the_client_acknowledged_in_place_of_the_broker_is_sent_again() -> None:
    """I1. confluentinc/confluent-kafka-go#921: the first batch was refused, and the second spoke for it."""
    case = case_of(_many, _one, _many, rows_max=50, partitions=3)

    assert refused(with_fault_at_every_step(case, LOST_BATCH)) == []


@pytest.mark.variant(of="test_every_fault_and_many_restarts_leave_each_event_in_kafka_once")
@pytest.mark.parametrize(
    "outcome",
    ["commit lost", *map(in_soak, ("commit refused", "commit on its way", "commit done, answer lost"))],
)
def test_lsn_of_a_batch_whose_commit_failed_is_not_kept(outcome: str) -> None:
    """I1. PeerDB-io/peerdb#1709: the LSN was stored before success was confirmed."""
    assert refused(with_fault_at_every_step(case_of(_one, _many, _one), outcome, "crash")) == []


@pytest.mark.variant(of="test_every_fault_and_many_restarts_leave_each_event_in_kafka_once")
def test_nothing_is_acknowledged_while_rows_are_on_their_way() -> None:
    """I1. airbytehq/airbyte#15214: WAL was acknowledged before the destination had it."""
    assert refused(with_fault_at_every_step(case_of(_many, _one, rows_max=50), "crash", "Postgres crash")) == []


@pytest.mark.variant(of="test_every_fault_and_many_restarts_leave_each_event_in_kafka_once")
def test_transaction_begun_before_anothers_commit_is_placed_by_its_own_commit() -> None:
    """I4. airbytehq/airbyte#35963: an event's own LSN was compared where its commit's was meant."""
    early, late = Writer(700, CONSISTENT_POINT), Writer(701, CONSISTENT_POINT + 16)
    for n in range(3):
        early.insert(KEYED, n, "early")
        late.insert(KEYED, n, "late")
    first = early.commit()
    case = Case([first, late.commit(first.end_lsn)], [], settings_of(2, 1, 10), pause_share=0.3, keepalive_share=0.4)

    assert refused(with_fault_at_every_step(case, "disconnect")) == []
    assert refused(with_fault_at_every_step(case, "Postgres crash")) == []


@pytest.mark.variant(of="test_every_fault_and_many_restarts_leave_each_event_in_kafka_once")
def test_lsn_that_moves_during_a_slow_commit_is_not_the_one_confirmed() -> None:
    """I1. apache/flink-cdc#2538, apache/seatunnel#11847, #11864: the position of *now* was flushed."""
    case = case_of(_one, _many, _one, _many)

    assert refused(with_fault_at_every_step(case, "commit slow", "crash")) == []


@pytest.mark.variant(of="test_every_fault_and_many_restarts_leave_each_event_in_kafka_once")
def test_idle_server_that_is_written_to_again_loses_nothing() -> None:
    """I1. airbytehq/airbyte#49803, #55846: an LSN that was asked for at another moment was acknowledged."""
    case = case_of(nothing, _one, nothing, _one, gap=256)

    assert refused(with_fault_at_every_step(case, "Postgres crash", "crash")) == []


@pytest.mark.parametrize("outcome", ["commit lost", in_soak("commit slow"), in_soak("delivery failure")])
def test_keepalive_does_not_move_past_rows_that_are_not_durable(outcome: str) -> None:
    """I1. supabase/etl#909, #913, PeerDB-io/peerdb#600: it did, though earlier writes were only accepted."""
    assert refused(with_fault_at_every_step(case_of(_one, _one, _one, rows_max=50), outcome, "crash")) == []


def test_progress_ahead_of_the_server_is_refused_and_never_taken_for_the_later_of_two() -> None:
    """I7. supabase/etl#935: a new slot at 40 and a stale progress of 100 resumed at 100."""

    def restore_backup(run: Run) -> None:
        run.server.identify = lambda: ServerIdentity(run.server.system_id, 1, Lsn(40), "app", 180006)  # type: ignore[method-assign]
        run.server.confirmed = run.server.saved = 40
        run.server.must_be_refused = "the server's WAL ends at 0/28"

    outcome = run_seed(1, Case(history_of(_one), [], prepare=restore_backup))

    assert outcome.violation is None
    assert outcome.refusal is not None
    assert outcome.records == outcome.confirmations == 0


def test_other_cluster_behind_the_same_address_is_refused() -> None:
    """I7. supabase/etl#935: progress belongs to one system, whatever its LSNs."""

    def replace_server(run: Run) -> None:
        run.server.system_id = "8000000000000000002"
        run.server.must_be_refused = "another Postgres cluster"

    outcome = run_seed(1, Case(history_of(_one), [], prepare=replace_server))

    assert outcome.violation is None
    assert outcome.refusal is not None


def test_slot_made_again_after_a_failover_at_a_later_lsn_is_refused() -> None:
    """I7. DBZ-5739, patroni/patroni#1749, #1056: the server gives no error, it begins later."""

    def fail_over(run: Run) -> None:
        run.server.visible = 1
        run.server.confirmed = run.server.saved = run.server.history[0].end_lsn
        run.server.must_be_refused = "a gap"

    outcome = run_seed(1, Case(history_of(_one, _one), [], prepare=fail_over))

    assert outcome.violation is None
    assert outcome.refusal is not None
    assert outcome.records == outcome.confirmations == 0


@pytest.mark.parametrize("seed", range(8))
def test_slot_that_somebody_moved_while_we_were_away_is_refused(seed: int) -> None:
    """I7. MaterializeInc/materialize#17114, #23287: an over-advanced slot that nobody compared."""
    case = case_of(_one, _many, _one, _many)
    case.faults = [(60, "slot moved"), (61, "crash"), (62, "crash"), (63, "crash"), (64, "crash")]

    outcome = run_seed(seed, case)

    assert outcome.violation is None
    assert ("slot moved" in outcome.faults) == (outcome.refusal is not None)


def test_changes_of_a_table_without_its_copy_are_acknowledged_only_where_it_is_called_stale() -> None:
    """I1, I7. spiceai/spiceai#11289: a shared slot was acknowledged past a table not yet attached."""

    def write_to_foreign(writer: Writer) -> None:
        writer.insert(KEYLESS, 1, "not copied")

    case = without_copy(case_of(_one, write_to_foreign, _one), KEYLESS)

    assert refused(with_fault_at_every_step(case, "crash")) == []
