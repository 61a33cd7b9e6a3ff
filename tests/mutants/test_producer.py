"""Small mistakes in the producer where each would lose or double rows, and the fast test that notices it.

Every line of the table is one mistake, what it would do, and the test that must fail on it.
"""

from dataclasses import replace
from functools import partial

import pytest

from tests.mutants.mutant import Mutant, Noticed
from tests.producer import test_first_copy
from tests.producer.batch import test_cut_maker, test_open_batch, test_progress
from tests.producer.copying import test_copy_state, test_next_epoch, test_visibility, test_window
from tests.producer.encoding import test_interpreted, test_record
from tests.producer.encoding.columns import test_rows_by_column
from tests.producer.guards import test_baseline, test_source_watch, test_start
from tests.producer.guards.doubts import test_doubts, test_keys_made_again, test_truncations
from tests.producer.guards.doubts.columns import test_altered_types, test_dropped_expressions
from tests.producer.kafka import test_deliveries, test_publisher_offsets
from tests.producer.postgres import test_replication_stream
from tests.producer.postgres.copy_beside import test_encoded_chunk
from tests.producer.postgres.table_reads import test_pieces, test_snapshot
from tests.producer.relations import (
    announcements,
    test_catalogue_facts,
    test_column_matching,
    test_column_numbers,
    test_relation_cache,
    test_tables,
    test_told_columns,
)
from tests.producer.session import (
    test_changes,
    test_left_out,
    test_logical_messages,
    test_loop,
    test_prepared,
    test_streamed,
)
from tests.producer.session.transactions import test_replay, test_session_relations, test_transaction
from tests.producer.written_record import UNCHANGED
from walbridge.producer import first_copy, first_copy_table
from walbridge.producer.batch.cut_maker import CutMaker
from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.copying import next_epoch, visibility
from walbridge.producer.copying.copy_state import TableState
from walbridge.producer.copying.visibility import ReceivedTransactions
from walbridge.producer.copying.window import Window, _LaidOver
from walbridge.producer.encoding.columns.rows_by_column import RowsByColumn
from walbridge.producer.encoding.interpreted import _Interpreter
from walbridge.producer.encoding.record import RecordWriter
from walbridge.producer.first_copy_table import TableOfCopy
from walbridge.producer.guards import start
from walbridge.producer.guards.baseline import Baseline, refuse_lost_publications
from walbridge.producer.guards.doubts.columns import altered_types, dropped_expressions
from walbridge.producer.guards.doubts.columns.added_values import AddedValues
from walbridge.producer.guards.doubts.keys_made_again import KeysMadeAgain
from walbridge.producer.guards.doubts.partition_rows import PartitionRows
from walbridge.producer.guards.doubts.storage_comparison import StorageComparison
from walbridge.producer.guards.news.leaving_tables import LeavingTables
from walbridge.producer.kafka import published_offsets
from walbridge.producer.kafka.deliveries import Deliveries
from walbridge.producer.postgres.copy_beside import encoded_chunk
from walbridge.producer.postgres.facts import RowVersion
from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.producer.postgres.table_reads import pieces, snapshot
from walbridge.producer.relations import column_matching, table_description
from walbridge.producer.relations.catalogue_facts import CatalogueFacts
from walbridge.producer.relations.columns import catalogue_key, number_ranges, told_columns, uncertain_columns
from walbridge.producer.relations.columns.known_columns import KnownColumns
from walbridge.producer.relations.recorded_versions import RecordedVersions
from walbridge.producer.relations.relation_cache import RelationCache
from walbridge.producer.relations.table_topics import TableTopics
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.changes import Changes
from walbridge.producer.session.fast_path import FastPath
from walbridge.producer.session.followed_tables import FollowedTables
from walbridge.producer.session.keepalives import Keepalives
from walbridge.producer.session.left_out_tables import LeftOutTables
from walbridge.producer.session.logical_messages import LogicalMessages
from walbridge.producer.session.table_trouble import TableTrouble
from walbridge.producer.session.transactions.pending_transactions import PendingTransactions
from walbridge.producer.session.transactions.session_relations import SessionRelations
from walbridge.producer.session.transactions.transaction import TransactionTracker
from walbridge.schemas.control.table_progress import CURRENT

NOTICED = {
    "what a publication left out before it was altered back passes unseen": Noticed(
        Mutant(Baseline.maybe_interrupted, "before != token", "False"),
        test_baseline.test_table_whose_publication_was_altered_and_altered_back_is_told_by_who_wrote_it_last,
    ),
    "a partition that is sent as its root's is called current": Noticed(
        Mutant(Baseline.published_under_other_name, "== UNDER_OTHER_NAME", "is None"),
        test_baseline.test_table_that_is_sent_under_another_name_is_told_whatever_was_written_down_of_it,
    ),
    "an idle cut confirms what a publication that is gone never sent": Noticed(
        Mutant(CutMaker.idle_cut, "self._watch.look()", "pass"),
        test_cut_maker.test_idle_cut_looks_at_the_publication_before_it_says_that_nothing_came,
    ),
    "rows that a TRUNCATE took between snapshot and lock are missing from the copy": Noticed(
        Mutant(
            first_copy._refuse_altered,
            "catalog.storage_of(snapshot.connection, relation_ids) != catalog.storage_of(connection, relation_ids)",
            "False",
        ),
        test_first_copy.test_table_that_was_truncated_or_altered_between_snapshot_and_lock_is_not_copied,
    ),
    "the copy does not ask whether a table was altered": Noticed(
        Mutant(first_copy._lock_as_published, "_refuse_altered(snapshot, connection, published)", "pass"),
        test_first_copy.test_table_that_was_truncated_or_altered_between_snapshot_and_lock_is_not_copied,
    ),
    "the copy begins though the publication changed": Noticed(
        Mutant(
            first_copy._lock_as_published,
            "publication_names) != published",
            "publication_names) is None",
        ),
        test_first_copy.test_publication_that_changed_before_the_snapshot_begins_the_copy_again,
    ),
    "the copy is called whole though its locks were lost": Noticed(
        Mutant(first_copy.first_copy, "snapshot.refuse_lost()", "pass"),
        test_first_copy.test_copy_whose_locks_were_lost_on_the_way_is_not_whole,
    ),
    "rows that came behind the last known page are in no piece": Noticed(
        Mutant(pieces.pieces_of, "[*ends, None]", "[*ends, known.pages]"),
        test_pieces.test_each_page_is_in_one_piece_also_those_that_came_since,
    ),
    "a table ends with the first of its pieces": Noticed(
        Mutant(first_copy._Tables._copy_pieces, "if not left[relation_id]:", "if relation_id in begun:"),
        test_first_copy.test_tables_whose_pieces_come_in_any_order_hold_each_row_once_between_their_barriers,
    ),
    "a row that no worker could encode is not copied": Noticed(
        Mutant(TableOfCopy._take_block, "self._take(other)", "pass"),
        test_first_copy.test_tables_whose_pieces_come_in_any_order_hold_each_row_once_between_their_barriers,
    ),
    "rows of a block for which the batch has no room are not copied": Noticed(
        Mutant(TableOfCopy._take_rows, "first = end", "first = len(block.rows)"),
        partial(test_first_copy.test_block_of_more_rows_than_a_batch_may_have_is_sent_in_several, has_workers=False),
    ),
    "a row with an escape is encoded as it stands in its line": Noticed(
        Mutant(RowsByColumn._rows, "rows[number] = self._encode_line(lines[number], self._part)", "pass"),
        test_rows_by_column.test_row_that_is_not_plain_is_encoded_from_its_line_in_its_place,
    ),
    "a piece that no worker could read is not copied": Noticed(
        Mutant(first_copy._Tables._send, "isinstance(wanted, PieceWanted) and not copying.is_left", "False"),
        test_first_copy.test_tables_whose_pieces_come_in_any_order_hold_each_row_once_between_their_barriers,
    ),
    "a chunk that workers read is of two states": Noticed(
        Mutant(encoded_chunk._joined, "part.bound != following.after", "False"),
        test_encoded_chunk.test_parts_of_another_state_are_not_put_together,
    ),
    "a chunk that workers read was altered on the way": Noticed(
        Mutant(encoded_chunk.chunk_answers, "read.refuse_lost()", "pass"),
        partial(test_encoded_chunk.test_chunk_whose_lock_was_lost_on_the_way_is_not_handed_over, ()),
    ),
    "a chunk that workers read lacks the part of one that died": Noticed(
        Mutant(
            encoded_chunk._joined,
            "part = _range(read, each.after, each.rows_max, bytes_left, wanted.row_format, folder, is_wanted)",
            "pass",
        ),
        test_encoded_chunk.test_part_that_no_worker_read_is_read_in_the_snapshot_itself,
    ),
    "a chunk that workers read has the rows behind a gap": Noticed(
        Mutant(
            encoded_chunk._joined,
            "            return\n        if following is not None and part.bound != following.after:",
            "            pass\n        elif following is not None and part.bound != following.after:",
        ),
        test_encoded_chunk.test_part_that_ends_by_its_bytes_ends_the_chunk_and_the_next_one_goes_on_there,
    ),
    "a chunk that workers read goes on behind its bytes": Noticed(
        Mutant(encoded_chunk._joined, "bytes_left <= 0", "False"),
        partial(test_encoded_chunk.test_part_with_which_a_chunk_has_its_bytes_ends_it_whoever_reads_the_parts, ()),
    ),
    "rows of a table that got the name of another are copied": Noticed(
        Mutant(snapshot.refuse_renamed, "found != table.relation_id", "False"),
        partial(test_snapshot.test_rows_do_not_count_where_the_name_is_another_tables_before_or_behind_them, 2),
    ),
    "older rows have no value in a column that came with one and is gone": Noticed(
        Mutant(uncertain_columns.unfilled_columns, "number in gone or ", ""),
        partial(
            test_column_numbers.test_column_of_which_nobody_can_tell_what_older_rows_have_is_uncertain,
            ("a", "b", "c"),
            announcements.catalogue(("a", 1), ("b", 2), last=3),
            ["c"],
        ),
    ),
    "rows from before a column was made again keep its first values": Noticed(
        Mutant(uncertain_columns.made_again_columns, "number not in (None, column.attnum)", "False"),
        partial(
            test_column_numbers.test_column_that_was_made_again_is_uncertain_unless_the_stream_showed_that_it_had_gone,
            (),
            announcements.catalogue(("a", 1), ("b", 3), last=3),
            ["b"],
        ),
    ),
    "rows that a type cannot hold are not copied": Noticed(
        Mutant(OpenBatch.send_copied, "self.send(writer, record)", "pass"),
        test_first_copy.test_every_row_is_copied_before_every_change_also_one_that_its_type_cannot_hold,
    ),
    "the copy lacks rows that a policy hides": Noticed(
        Mutant(snapshot.begin_in, 'connection.execute("SET LOCAL row_security = off")', "pass"),
        test_snapshot.test_snapshot_is_read_only_as_of_its_name_and_shows_rows_that_policies_hide,
    ),
    "a cut inside the copy says that the copy is whole": Noticed(
        Mutant(first_copy_table.commit, "// 1000, finished)", "// 1000, finished or ())"),
        partial(
            test_first_copy.test_cuts_inside_a_copy_are_incomplete_and_hold_each_row_once, rows_max=50, bytes_max=2**20
        ),
    ),
    "a key is gained after a version without one": Noticed(
        Mutant(catalogue_key._was_key, "all(each.table.key_columns for each in versions)", "True"),
        test_column_matching.test_key_is_never_gained_after_any_version_without_one,
    ),
    "a column that nobody told is taken for one of the told ones": Noticed(
        Mutant(told_columns.are_all_told, "not told.fresh.issuperset(came)", "False"),
        partial(
            test_told_columns.test_column_that_nobody_told_or_a_trigger_that_was_another_one_ends_all_certainty,
            [replace(test_told_columns.MADE_AGAIN, told=replace(test_told_columns.MADE_AGAIN.told, fresh=frozenset()))],
            3,
            "by",
        ),
    ),
    "rows of a trigger that was disabled meanwhile are believed": Noticed(
        Mutant(told_columns.are_all_told, "told.by != place.by", "False"),
        partial(
            test_told_columns.test_column_that_nobody_told_or_a_trigger_that_was_another_one_ends_all_certainty,
            [replace(test_told_columns.MADE_AGAIN, told=replace(test_told_columns.MADE_AGAIN.told, by="other"))],
            3,
            "by",
        ),
    ),
    "an equal Relation of other columns is not installed": Noticed(
        Mutant(SessionRelations._make_due, " and relation_id not in self._altered", ""),
        test_session_relations.test_relation_that_is_equal_is_installed_again_after_the_columns_were_altered,
    ),
    "half a primary key is taken for a key": Noticed(
        Mutant(catalogue_key.catalogue_key, "len(key) == len(primary)", "True"),
        test_column_matching.test_half_of_a_primary_key_is_no_key,
    ),
    "the order of numbers is not checked": Noticed(
        Mutant(column_matching.numbers_of, "_possible(now, known.facts) == now and ", ""),
        test_column_matching.test_numbers_that_contradict_the_order_are_not_taken_over_recorded_ones,
    ),
    "numbers by order contradict the catalogue": Noticed(
        Mutant(KnownColumns.ranges, "by_name - self.candidates - self._generated and self.kept <= by_name", "False"),
        test_column_matching.test_column_that_is_published_later_than_others_has_its_own_number,
    ),
    "names count before the order of numbers": Noticed(
        Mutant(
            column_matching.numbers_of,
            "return _possible(by_name, known.facts) if by_order is None else by_order\n",
            "return by_name\n",
        ),
        partial(
            test_column_numbers.test_number_is_the_columns_own_though_its_name_is_another_ones_by_now,
            ("a", "b", "x"),
            announcements.catalogue(("id", 1), ("b", 2), ("a", 3), ("x", 5), last=5),
            [2, 3, 5],
        ),
    ),
    "a column that stays has none among those that are told": Noticed(
        Mutant(number_ranges.number_ranges, "must[place] if place < len(must) else ordered[-1]", "ordered[-1]"),
        partial(
            test_column_numbers.test_number_is_the_columns_own_though_its_name_is_another_ones_by_now,
            ("a", "b"),
            announcements.catalogue(("id", 1), ("b", 2), ("a", 3), ("x", 5), last=5),
            [2, 3],
        ),
    ),
    "facts of a column that was made anew are taken": Noticed(
        Mutant(table_description.describe, "described is not None and described.attnum == number", "known is not None"),
        test_column_numbers.test_facts_of_a_column_of_the_same_name_with_another_number_are_not_taken,
    ),
    "the value of rows older than a column is not recorded": Noticed(
        Mutant(table_description.describe, "_missing_value(typed, number, facts, versions, values)", "None"),
        test_column_numbers.test_value_of_older_rows_is_recorded_with_a_column_that_came_and_holds_on,
    ),
    "a column is remembered before what older rows have in it is told": Noticed(
        Mutant(StorageComparison.compare, "sound - not_yet", "sound"),
        test_doubts.test_column_with_a_value_is_told_before_its_files_are_remembered,
    ),
    "a column that was told without what older rows have in it is no doubt": Noticed(
        Mutant(AddedValues._is_told, "bool(told)", "True"),
        test_doubts.test_column_that_was_told_without_its_value_is_a_doubt,
    ),
    "a table that is current forgets which partitions came and went when its copy begins": Noticed(
        Mutant(PartitionRows.with_unused_marks, "table.state != CURRENT", "True"),
        partial(
            test_truncations.test_partition_that_came_and_went_is_no_doubt_about_a_copy_that_begins_behind_it,
            CURRENT,
            is_told_again=True,
        ),
    ),
    "a key that was made again is remembered before the stream is there": Noticed(
        Mutant(KeysMadeAgain.remembered, "known.key if self._is_ahead(relation_id) else now.key", "now.key"),
        test_keys_made_again.test_key_that_was_away_at_a_look_and_is_back_when_the_table_is_announced_is_a_doubt,
    ),
    "a key that comes back behind a look that showed none is no doubt": Noticed(
        Mutant(KeysMadeAgain.note_compared, "known.key in (None, now.key)", "known.key in (None, 0, now.key)"),
        test_keys_made_again.test_key_that_comes_back_behind_a_look_that_showed_none_is_a_doubt,
    ),
    "what earlier looks knew to be generated is not compared": Noticed(
        Mutant(dropped_expressions.tables_with_dropped, "known[each].withheld - now.withheld", "frozenset()"),
        test_dropped_expressions.test_column_that_is_generated_no_more_is_a_doubt_until_its_table_is_copied,
    ),
    "the value of rows older than a column goes with a rewrite": Noticed(
        Mutant(table_description._missing_value, "if recorded.attnum == number:", "if False:"),
        test_column_numbers.test_value_of_older_rows_is_recorded_with_a_column_that_came_and_holds_on,
    ),
    "two relations have one schema id": Noticed(
        Mutant(
            RelationCache.version_of,
            "self._is_free(value_id, value) and all(_is_alike(each, record) for each in others)",
            "True",
        ),
        test_relation_cache.test_two_tables_that_had_one_name_have_an_id_each_for_their_schemas,
    ),
    "two keys have one schema id": Noticed(
        Mutant(RelationCache._key_of, "self._is_free(an_id, text)", "True"),
        test_relation_cache.test_two_keys_that_differ_in_digits_alone_have_an_id_each,
    ),
    "a renamed column of a key puts rows under other keys": Noticed(
        Mutant(RelationCache._key_of, "self._has_key_of(begun, table)", "False"),
        test_relation_cache.test_rows_stay_under_their_keys_when_columns_of_the_key_are_renamed_or_made_longer,
    ),
    "rows stand in one topic under two keys": Noticed(
        Mutant(RelationCache.has_other_key, "not self._has_key_of(begun, table)", "False"),
        test_relation_cache.test_another_key_is_none_for_the_topic_and_the_next_topic_begins_with_the_names_of_now,
    ),
    "a table that departed is followed again": Noticed(
        Mutant(FollowedTables.drop, "self._relation_ids -= {relation_id}", "pass"),
        test_loop.test_table_that_departed_is_not_followed_again_when_it_is_announced_again,
    ),
    "a table that departed is written the short way": Noticed(
        Mutant(FollowedTables.drop, "self._fast_path.forget(relation_id)", "pass"),
        test_loop.test_table_that_departed_is_not_written_the_short_way_either,
    ),
    "a batch says that a table is dropped whose changes may come after it": Noticed(
        Mutant(
            CutMaker.close_without_look,
            "self._add_table_changes(end_lsn)",
            "self._add_table_changes(self._stream.received)",
        ),
        test_cut_maker.test_table_whose_changes_may_come_after_a_batch_is_not_dropped_by_it,
    ),
    "a table that departed is not told": Noticed(
        Mutant(CutMaker._drop, "self._tables_at_cut.drop(table.relation_id)", "pass"),
        test_cut_maker.test_table_that_left_is_told_and_its_writer_forgotten,
    ),
    "a table departs while an open transaction may hold changes of it": Noticed(
        Mutant(LeavingTables.note_look, "oldest_xid >= self._writers_end", "self._writers_end"),
        test_source_watch.test_table_that_left_is_gone_from_where_the_wal_stood_when_nobody_wrote_to_it_any_more,
    ),
    "a table departs a byte early": Noticed(
        Mutant(LeavingTables.take, "last <= lsn", "last <= lsn + 1"),
        test_source_watch.test_table_that_left_is_gone_from_where_the_wal_stood_when_nobody_wrote_to_it_any_more,
    ),
    "a table that is gone stays current until nobody can hold changes of it": Noticed(
        Mutant(LeavingTables.leave_with_next_cut, "dict.fromkeys(relation_ids, _BEGINNING)", "{}"),
        test_source_watch.test_table_that_is_gone_from_the_catalogue_leaves_with_the_next_cut,
    ),
    "what comes of a table that is gone is taken for one that came": Noticed(
        Mutant(TableTrouble.drop, "relation_id in self._watch.news.missing_in_catalogue", "False"),
        test_loop.test_what_still_comes_of_a_table_that_is_gone_is_left_out,
    ),
    "a type that one transaction altered behind its column is not doubted": Noticed(
        Mutant(altered_types._may_be_later, "one.command > other.command", "False"),
        partial(
            test_altered_types.test_type_is_altered_where_a_row_of_it_may_be_younger_than_the_columns,
            fact=RowVersion(750, 5),
            expected=True,
        ),
    ),
    "a column that was given its type again is taken for one that came then": Noticed(
        Mutant(altered_types._may_be_later, "other.is_first and not", "not"),
        partial(test_altered_types.test_type_is_altered_by_who_gave_it_to_the_column_again, xid=750, expected=True),
    ),
    "a topic that was made again is written on": Noticed(
        Mutant(Baseline.refuse_other_control_topics, "topics[topic].topic_id != an_id", "False"),
        test_source_watch.test_session_does_not_begin_over_a_topic_of_all_tables_that_was_made_again,
    ),
    "changes of a publication that was made again are taken for all": Noticed(
        Mutant(refuse_lost_publications, "now.oids[name] not in baseline.publications", "False"),
        partial(
            test_baseline.test_publication_under_which_changes_did_not_come_asks_for_a_copy_of_all_tables,
            names=["walbridge"],
            oids={"walbridge": 16500},
            words="made again",
        ),
    ),
    "progress is ours before Kafka has it": Noticed(
        Mutant(
            OpenBatch.commit_batch,
            'kill_point("produce:rows-acknowledged")\n    progress, cut = records(ranges, self._metadata.end_offset)',
            "progress, cut = records(ranges, self._metadata.end_offset)\n    self.tracker.committed(progress)",
        ),
        test_open_batch.test_progress_is_ours_only_after_kafka_has_committed_it,
    ),
    "rows of a second batch are not counted": Noticed(
        Mutant(OpenBatch.open, "self._writer = None", "pass"),
        test_open_batch.test_cut_counts_the_rows_of_each_table_in_every_batch,
    ),
    "a truncate reaches one partition only": Noticed(
        Mutant(OpenBatch.send_to_all_partitions, "range(writer.relation.partition_count)", "range(1)"),
        test_open_batch.test_truncate_goes_to_each_partition_and_counts_as_often,
    ),
    "a batch that was given up stays open": Noticed(
        Mutant(OpenBatch.abandon, "self.is_open = False", "pass"),
        test_open_batch.test_batch_that_is_given_up_leaves_nothing_to_the_next,
    ),
    "the floor passes a prepared transaction": Noticed(
        Mutant(CutMaker._bound_floor, "min(received, held)", "received"),
        test_replay.test_prepared_transaction_holds_what_is_confirmed_before_its_prepare,
    ),
    "the floor of an idle cut is not bounded": Noticed(
        Mutant(CutMaker._commit_without_rows, "self._bound_floor()", "pass"),
        partial(test_cut_maker.check_floor, 250, 250, is_idle=True),
    ),
    "a part of a transaction is confirmed": Noticed(
        Mutant(CutMaker.split, "self._stream.keep_alive()", "self._stream.confirm(self._stream.received)"),
        test_cut_maker.test_batch_that_ends_inside_a_transaction_confirms_nothing,
    ),
    "what is confirmed is the end of the newest cut": Noticed(
        Mutant(ProgressTracker.confirmable_lsn, "self.progress.floor", "self.progress.end_lsn"),
        test_progress.test_what_is_confirmed_is_the_floor_and_not_the_end_of_the_cut,
    ),
    "a table that departed stays in progress": Noticed(
        Mutant(ProgressTracker.close, "if batch.dropped else", "if False else"),
        test_cut_maker.test_table_that_left_is_said_to_be_dropped_in_the_cut_and_leaves_progress,
    ),
    "every cut writes the records of all tables": Noticed(
        Mutant(ProgressTracker.records, "is_all or written.get(each) != table", "True"),
        test_progress.test_cut_writes_the_slots_record_and_those_of_tables_that_changed,
    ),
    "a progress of format 1 is taken for records of tables": Noticed(
        Mutant(ProgressTracker.committed, "progress.format_version == FORMAT_VERSION", "True"),
        test_progress.test_progress_of_format_1_is_written_whole_with_the_next_cut,
    ),
    "the hash of a split holds the header of its frames": Noticed(
        Mutant(TransactionTracker.hash_bodies, "memoryview(body)[at:]", "memoryview(body)"),
        test_transaction.test_hash_of_a_transaction_is_of_its_bodies_alone,
    ),
    "changes of one transaction are hashed with the next": Noticed(
        Mutant(TransactionTracker.begin, "self.unhashed.clear()", "pass"),
        test_transaction.test_change_that_was_not_hashed_yet_is_of_its_transaction_alone,
    ),
    "a plain row takes no ordinal": Noticed(
        Mutant(FastPath.publish, "transaction.ordinal += 1", "pass"),
        test_loop.test_batch_goes_to_the_end_of_its_last_transaction_and_its_rows_count_from_0,
    ),
    "a plain row is not in the hash of its transaction": Noticed(
        Mutant(FastPath.publish, "transactions.unhashed.append(data)", "pass"),
        test_loop.test_transaction_that_exceeds_a_batch_is_split_and_complete_with_its_last_part,
    ),
    "a split whose last change ended a part stays incomplete": Noticed(
        Mutant(CutMaker.end_transaction, "split.commit_lsn != commit.commit_lsn", "True"),
        test_loop.test_split_of_a_transaction_whose_last_change_ended_a_part_ends_with_its_commit,
    ),
    "a batch ends at a commit record, not behind it": Noticed(
        Mutant(CutMaker.end_transaction, "batch.end_lsn = commit.end_lsn", "batch.end_lsn = commit.commit_lsn"),
        test_loop.test_batch_goes_to_the_end_of_its_last_transaction_and_its_rows_count_from_0,
    ),
    "a keepalive ends a batch inside a transaction": Noticed(
        Mutant(Keepalives.receive, "is_outside = self._transactions.open is None", "is_outside = True"),
        test_loop.test_batch_does_not_end_while_a_transaction_is_open,
    ),
    "a new version is read by the old one on the short way": Noticed(
        Mutant(FollowedTables.install, "self._fast_path.forget(relation.relation_id)", "pass"),
        test_loop.test_version_that_comes_within_a_transaction_begins_with_its_next_row,
    ),
    "both halves of a change of key have one ordinal": Noticed(
        Mutant(RecordWriter._update_with, "ordinal + 1", "ordinal"),
        test_record.test_key_change_is_a_d_of_the_old_key_then_a_c_of_the_new,
    ),
    "an update without its old row is taken under identity FULL": Noticed(
        Mutant(RecordWriter.__init__, '("c",) if record', '("c", "u") if record'),
        test_loop.test_table_is_left_at_an_update_without_its_old_row_under_full_identity_on_the_short_way_too,
    ),
    "a table of which a value is nowhere is followed on": Noticed(
        Mutant(LeftOutTables.drop, "self._followed.drop(table.relation_id)", "pass"),
        test_changes.test_table_is_left_at_the_row_without_a_value_and_nothing_of_it_comes_after,
    ),
    "events of a change share their ordinal": Noticed(
        Mutant(Changes._send, "transaction.ordinal += count", "transaction.ordinal += 1"),
        test_loop.test_every_kind_of_change_takes_its_ordinals,
    ),
    "a truncate is no barrier": Noticed(
        Mutant(Changes._truncate, 'self._out.add_barrier(writer, "truncate", transaction.position)', "pass"),
        test_loop.test_versions_and_truncates_have_barriers_where_they_begin,
    ),
    "a table without a copy is written": Noticed(
        Mutant(Tables.receive, "relation.relation_id not in copied", "False"),
        test_tables.test_change_of_a_table_without_its_copy_is_refused_when_it_comes_and_not_before,
    ),
    "a schema is written after its first row": Noticed(
        Mutant(RecordedVersions.write, "self._metadata.write(new)", "pass"),
        test_tables.test_schema_is_in_the_metadata_topic_before_anything_is_written_with_it,
    ),
    "rows go on in a topic that grew": Noticed(
        Mutant(TableTopics._refuse_grown, "counts and topic.partition_count not in counts", "False"),
        test_tables.test_copy_does_not_begin_in_a_topic_that_grew_since_its_rows_were_spread,
    ),
    "rows without a key go to several partitions": Noticed(
        Mutant(TableTopics.refuse_lost_key, "not table.key_columns and", "False and"),
        test_tables.test_table_that_lost_its_key_over_several_partitions_cannot_be_followed_so,
    ),
    "the catalogue is asked before an ALTER is visible": Noticed(
        Mutant(CatalogueFacts._singly, "catalog.wait_for_alterations(self._connection, relation.relation_id)", "pass"),
        test_tables.test_catalogue_is_asked_after_those_who_alter_the_table_are_through,
    ),
    "what the catalogue said before is taken for a transaction whose commit it did not show yet": Noticed(
        Mutant(visibility.Snapshot.contains, "xid not in self.in_progress", "True"),
        partial(test_catalogue_facts.test_transaction_that_the_snapshot_lacks_is_asked_anew, 95),
    ),
    "what the catalogue said before is taken for a transaction of later": Noticed(
        Mutant(visibility.Snapshot.contains, "xid < self.xmax", "True"),
        partial(test_catalogue_facts.test_transaction_that_the_snapshot_lacks_is_asked_anew, 101),
    ),
    "the first rows of a version drop what was not sent": Noticed(
        Mutant(_Interpreter._decode, "if kind == _UNCHANGED else []", "if False else []"),
        test_interpreted.test_value_that_was_not_sent_is_told_before_code_is_generated_too,
    ),
    "the older of two versions is kept after a replay": Noticed(
        Mutant(SessionRelations.show, "known[0] < arrival", "known[0] > arrival"),
        test_session_relations.test_what_a_commit_makes_known_stays_known_unless_a_newer_one_came_meanwhile,
    ),
    "what a streamed transaction announced is not known after its commit": Noticed(
        Mutant(SessionRelations.show, "arrival is not None and", "False and"),
        test_session_relations.test_what_a_commit_makes_known_stays_known_unless_a_newer_one_came_meanwhile,
    ),
    "a replay leaves its own versions behind": Noticed(
        Mutant(SessionRelations.end_replay, "self.show_all(self.all_known())", "pass"),
        test_session_relations.test_after_a_replay_a_change_is_read_by_what_was_known_before_it,
    ),
    "a commit exactly at what is done is let through without its changes": Noticed(
        Mutant(
            PendingTransactions._commit_prepared, "message.commit_lsn >= self._done", "message.commit_lsn > self._done"
        ),
        test_prepared.test_commit_without_its_changes_exactly_at_what_is_done_is_refused,
    ),
    "a rolled back savepoint takes its whole transaction with it": Noticed(
        Mutant(PendingTransactions._stream_abort, "message.xid == message.subxid", "True"),
        test_streamed.test_changes_of_a_savepoint_that_is_rolled_back_are_void_and_no_others,
    ),
    "changes of a savepoint are taken for those of the transaction": Noticed(
        Mutant(PendingTransactions._take_streamed, "spooled.append(subxid, payload, ", "spooled.append(xid, payload, "),
        test_streamed.test_changes_of_a_savepoint_that_is_rolled_back_are_void_and_no_others,
    ),
    "a table that was left is published on": Noticed(
        Mutant(LeftOutTables._is_published, "relation_id in self._left_out", "False"),
        test_left_out.test_table_that_was_left_out_before_is_left_out_without_another_word,
    ),
    "a table that came after the copy stops the others": Noticed(
        Mutant(LeftOutTables._is_published, "relation_id not in self._followed", "False"),
        test_left_out.test_table_that_came_after_the_copy_is_left_out_and_told_with_the_cut_that_passes_it,
    ),
    "a logical message is published twice": Noticed(
        Mutant(
            LogicalMessages.publish_outside,
            "message.message_lsn <= self._last_lsn",
            "message.message_lsn < self._last_lsn",
        ),
        test_logical_messages.test_each_message_is_published_once_however_often_its_session_begins_before_it,
    ),
    "a hole in the offsets of a batch is taken": Noticed(
        Mutant(published_offsets.hole, "first < 0 or last - first + 1 != records", "first < 0"),
        partial(test_publisher_offsets.test_row_of_another_writer_between_ours_makes_the_batch_void, partitions=3),
    ),
    "a row that is not acknowledged counts": Noticed(
        Mutant(Deliveries._callback, "self.failure = self.failure or error or NO_OFFSET", "pass"),
        partial(test_deliveries.test_failure_is_kept_and_ends_the_wait, is_control=False),
    ),
    "a progress record that the broker may not have is committed": Noticed(
        Mutant(Deliveries.control_delivered, " or message.offset() is None", ""),
        partial(
            test_publisher_offsets.test_control_record_that_is_acknowledged_without_an_offset_is_not_committed,
            b"progress",
        ),
    ),
    "the first offset is the first that was told": Noticed(
        Mutant(Deliveries._callback, "span[0] = offset", "pass"),
        partial(
            test_deliveries.test_span_is_from_the_first_offset_to_the_last_in_whatever_order_they_are_told, (7, 5, 6)
        ),
    ),
    "more than the server reported is confirmed": Noticed(
        Mutant(ReplicationStream.confirm, "lsn > self.received", "False"),
        test_replication_stream.test_more_than_the_server_reported_is_never_confirmed,
    ),
    "a new epoch begins where the lost one ended": Noticed(
        Mutant(ProgressTracker.begin_epoch, "floor=at", "floor=self.progress.floor"),
        test_next_epoch.test_epoch_is_known_to_begin_until_its_first_cut_and_that_begins_a_chain,
    ),
    "a table of a lost epoch is followed in the next one": Noticed(
        Mutant(
            next_epoch._stale,
            "TableProgress(relation_id, STALE, topic",
            "TableProgress(relation_id, table.state, topic",
        ),
        test_next_epoch.test_every_table_is_stale_since_what_was_published_and_is_to_be_copied,
    ),
    "what a request asked for is asked again": Noticed(
        Mutant(next_epoch.next_epoch, "str(next_offset)", '"5"'),
        test_next_epoch.test_every_table_is_stale_since_what_was_published_and_is_to_be_copied,
    ),
    "a table of another cluster goes on with the metadata of one with its relation id": Noticed(
        Mutant(RelationCache.begin_at, "of_relations.clear()", "pass"),
        test_relation_cache.test_records_of_another_cluster_keep_their_ids_and_are_of_no_table,
    ),
    "what is confirmed goes back": Noticed(
        Mutant(ReplicationStream.confirm, "lsn > self.confirmed", "True"),
        test_replication_stream.test_confirmed_never_goes_back,
    ),
    "what was received is told as confirmed": Noticed(
        Mutant(
            ReplicationStream.send_status,
            "max(self.received, self.confirmed), self.confirmed,",
            "self.received, self.received,",
        ),
        test_replication_stream.test_confirmed_is_told_at_once_beside_what_was_received,
    ),
    "a gap behind a prepared transaction is not seen": Noticed(
        Mutant(start._refuse_gap, "progress.floor if two_phase else progress.done", "progress.done"),
        test_start.test_gap_is_measured_from_the_floor_where_prepared_transactions_come_early,
    ),
    "a row is completed with that which had its key before": Noticed(
        Mutant(_LaidOver._remove, "self.rows.pop(key, None)", "self.rows.get(key)"),
        test_window.test_value_of_a_row_that_left_its_key_is_not_that_of_the_next_one_there,
    ),
    "a row whose values nobody has is not read again": Noticed(
        Mutant(_LaidOver.take, "step.new != step.old or was_unknown", "False"),
        partial(
            test_window.test_row_that_came_with_unknown_values_from_elsewhere_is_read_again,
            [test_window.move(b"7", b"8", b"x", UNCHANGED)],
        ),
    ),
    "a key that was listed again while it was read is settled": Noticed(
        Mutant(TableState.enter, "{**still, **chunk.read_again}", "still"),
        test_copy_state.test_key_that_was_listed_again_in_the_window_of_its_own_chunk_stays,
    ),
    "a look takes from a window what is not visible in its rows": Noticed(
        Mutant(ReceivedTransactions.before, "self._unseen[:]", 'type(self._unseen)("I")'),
        test_visibility.test_look_at_a_newer_snapshot_takes_nothing_from_a_window_that_is_open,
    ),
    "the memory of received transactions grows": Noticed(
        Mutant(ReceivedTransactions.receive, "del self._unseen[:]", "pass"),
        test_visibility.test_memory_of_a_session_is_bounded_while_nobody_looks,
    ),
    "a window grows": Noticed(
        Mutant(Window.receive, "self._size_bytes > self._bytes_max", "False"),
        partial(test_window.test_window_is_bounded_in_bytes, is_shown_first=False),
    ),
    "the list of keys to read again grows": Noticed(
        Mutant(TableState.list_moved, "> LISTED_BYTES_MAX", "< 0"),
        test_copy_state.test_list_of_keys_is_bounded,
    ),
    "the copy of another cluster is begun again": Noticed(
        Mutant(start.refuse_bad_copy, "_refuse_other_database(progress, server)", "pass"),
        test_start.test_unfinished_copy_is_not_begun_again_elsewhere_when_it_has_no_slot_yet,
    ),
}


@pytest.mark.parametrize("noticed", NOTICED.values(), ids=NOTICED)
def test_mistake_is_noticed(noticed: Noticed) -> None:
    noticed.check()
