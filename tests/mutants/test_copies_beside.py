"""Small mistakes where the session joins copies to its stream: a fast test notices each.

Every line is one mistake, what it would do, and the test that must fail on it. Those of windows and states are in
``test_copying.py``.
"""

from functools import partial

import pytest

from tests.mutants.mutant import Mutant, Noticed
from tests.mutants.runs import patched
from tests.producer.session.copies import test_copies_altered as altered
from tests.producer.session.copies import test_copies_begin as begin
from tests.producer.session.copies import test_copies_chunks as chunks
from tests.producer.session.copies import test_copies_listed as listed
from tests.producer.session.copies import test_copies_topics as copies_topics
from tests.producer.session.copies import test_copies_windows as windows
from walbridge.producer.kafka.described_topic import DescribedTopic
from walbridge.producer.session.changes import Changes
from walbridge.producer.session.copies.answers import CopyAnswers
from walbridge.producer.session.copies.chunk_rows import rows_at_end
from walbridge.producer.session.copies.questions import CopyQuestions
from walbridge.producer.session.copies.records import CopyRecords
from walbridge.producer.session.copies.start import CopyStart
from walbridge.producer.session.copies.state.copied_table import CopiedTable
from walbridge.producer.session.copies.state.next_chunk import last_key_read
from walbridge.producer.session.copies.state.reading import CopyReading
from walbridge.producer.session.copies.state.tables_to_copy import TablesToCopy
from walbridge.producer.session.copies.steps import CopySteps
from walbridge.producer.session.copies.table_copies import TableCopies
from walbridge.producer.session.left_out_tables import LeftOutTables
from walbridge.producer.session.loop import Session
from walbridge.producer.session.table_trouble import TableTrouble

ANOTHER = DescribedTopic("another", 1)


def noticed(function: object, text: str, mistake: str, test: object) -> Noticed:
    assert callable(test)
    return Noticed(Mutant(function, text, mistake), test)


NOTICED = {
    # The session.
    "a transaction is not told before its changes": noticed(
        Session._begin, "if self._copies is not None:", "if False:",
        windows.test_commit_that_is_received_and_not_visible_voids_the_chunk,
    ),
    "changes of a table that is copied take the fast path": noticed(
        Changes._begin, "self.copies.has_copy(relation_id)", "False",
        windows.test_change_that_the_snapshot_lacks_is_laid_over_the_rows,
    ),
    "a table that is dropped is read on": noticed(
        TableTrouble.drop, "if self.copies is not None:", "if False:",
        altered.test_rows_of_a_table_that_is_dropped_while_they_are_read_do_not_enter,
    ),
    "a table that is copied is left out all the same": noticed(
        LeftOutTables.follow, "self._followed.add(relation_id)", "pass",
        begin.test_changes_are_published_from_the_beginning_on_whatever_is_read,
    ),
    "what was left out once is left out for good": noticed(
        LeftOutTables.follow, "self._left_out.discard(relation_id)", "pass",
        begin.test_changes_of_a_table_that_was_left_out_are_published_from_the_beginning_on,
    ),
    # When something may happen.
    "copies go on inside of a split transaction": noticed(
        TableCopies.step, "progress.split is not None or ", "",
        begin.test_nothing_begins_inside_of_a_transaction_that_is_split
    ),
    "copies go on before what was done has come again": noticed(
        TableCopies.step, "self._stream.received < max(progress.done, progress.end_lsn)", "False",
        begin.test_nothing_begins_before_what_was_done_is_received_again,
    ),
    "a copy begins before the stream is where its table was described": noticed(
        CopySteps.publish_found, "not self._arrival.has_come(found.lsn)", "False",
        begin.test_copy_begins_when_everything_before_the_table_was_described_is_received,
    ),
    "rows enter before the stream is where they are": noticed(
        CopySteps._enter_if_due,
        "not self._arrival.has_come(read.insert_lsn) or not window.is_read(self._stream.received)",
        "False", chunks.test_chunk_waits_until_all_that_its_rows_show_is_received,
    ),
    "rows enter the batch of what came before": noticed(
        CopySteps._enter_if_due, "self._records.end_batch()", "True",
        chunks.test_rows_of_the_open_batch_are_committed_before_a_chunk,
    ),
    "a copy begins in the batch of what came before": noticed(
        CopySteps.publish_found, "not self._records.end_batch()", "False",
        begin.test_what_was_received_before_goes_into_a_batch_of_its_own,
    ),
    "the end of a copy follows the word that its table is gone": noticed(
        CopySteps.end, " or copied.state.relation_id not in self._reading.copied", "",
        altered.test_end_of_a_table_that_the_batch_before_it_drops_does_not_come,
    ),
    # What is asked for.
    "a copy ends as it was, though its table was altered": noticed(
        CopyQuestions._ask_of, " and not copied.is_altered", "",
        altered.test_table_that_is_altered_when_its_last_row_is_read_begins_again,
    ),
    "a table that was altered is read on": noticed(
        CopyQuestions._ask_of, " or copied.is_altered", "",
        begin.test_copy_of_a_table_that_waits_to_be_described_again_waits_for_that_alone,
    ),
    "a window is not told what was received before it": noticed(
        CopyQuestions._ask_for_chunk, "self._reading.received.before()", "type(self._reading.received)(0).before()",
        windows.test_commit_that_is_received_and_not_visible_voids_the_chunk,
    ),
    "transactions from before a table was described do not count": noticed(
        CopiedTable.open_chunk, "max(before.begun, self.begun)", "before.begun",
        windows.test_transactions_that_began_before_a_table_was_described_hold_up_its_rows_alone,
    ),
    "a chunk is read from the first row again": noticed(
        last_key_read, "return read.bound", "return None",
        chunks.test_table_is_copied_chunk_by_chunk_and_is_current_behind_its_last_row,
    ),
    "a session reads from the first row again": noticed(
        last_key_read, "None if copy.bound is None else Bound(copy.bound)", "None",
        begin.test_copy_goes_on_in_the_next_session_behind_its_last_chunk,
    ),
    "listed keys in binary are left to the ranges that are still to come": noticed(
        CopiedTable._listed_keys, "self.state = self.state.read_anew()", "pass",
        listed.test_listed_key_in_binary_is_read_with_all_rows_from_the_first_one_on,
    ),
    "three chunks are open": noticed(
        CopiedTable.may_read_on, " and len(self.chunks) < OPEN_MAX", "",
        chunks.test_next_chunk_is_read_while_one_waits_and_a_third_is_not,
    ),
    "a chunk is read on behind listed keys": noticed(
        CopiedTable.may_read_on, " and not self.state.reads_listed", "",
        listed.test_nothing_is_read_on_while_listed_keys_wait_to_enter,
    ),
    "a chunk behind one that is void enters": noticed(
        CopyAnswers._reread, "copied.close_chunks(number)", "copied.chunks.pop(number).close()",
        windows.test_chunk_behind_one_that_is_void_is_read_again_too,
    ),
    # What becomes of answers.
    "a copy of another shape goes on": noticed(
        CopySteps.publish_found, " or copied.shape != found.shape", "",
        begin.test_copy_of_a_table_that_was_altered_between_two_sessions_begins_again,
    ),
    "a copy that goes on begins again": noticed(
        CopySteps.publish_found, "copied is None or copied.is_altered or copied.shape != found.shape", "True",
        begin.test_copy_goes_on_in_the_next_session_behind_its_last_chunk,
    ),
    "a copy of which the reader finds another shape goes on": noticed(
        CopyAnswers._take_of_chunk, "copied.is_altered = True", "pass",
        begin.test_copy_of_a_table_whose_reader_finds_another_shape_begins_again,
    ),
    "the snapshot of a chunk is not told to its window": noticed(
        CopyAnswers._take_of_chunk, "chunk.window.show(snapshot)", "pass",
        windows.test_change_that_the_snapshot_lacks_is_laid_over_the_rows,
    ),
    "a void chunk enters": noticed(
        CopyAnswers.read_void_chunks_again, "chunk.window.void is not None", "False",
        windows.test_chunk_of_a_table_that_is_emptied_meanwhile_is_read_again_from_where_it_was,
    ),
    "a window stays open when its chunk was let go": noticed(
        CopyReading.end, "self.table.close_unread()", "pass",
        chunks.test_chunk_that_cannot_be_read_is_asked_for_again_and_left_nothing,
    ),
    "an answer is heard after its table was let go": noticed(
        CopyReading.end_copy, "self.asked == relation_id", "False",
        begin.test_table_that_is_let_go_while_it_is_described_does_not_begin,
    ),
    "a table that cannot be copied is told nobody": noticed(
        CopyAnswers._stay_stale, "self._out.tracker.remember_tables({relation_id: left})", "pass",
        begin.test_table_that_cannot_be_read_now_is_stale_and_tried_again_a_second_later,
    ),
    # Changes of a table that is copied.
    "no key is looked at": noticed(
        rows_at_end, "row[0] not in touched", "True",
        windows.test_change_that_the_snapshot_lacks_is_laid_over_rows_that_the_reader_encoded,
    ),
    "rows enter as the table was called": noticed(
        CopySteps._enter, "chunk.writer is writer", "True",
        altered.test_rows_that_were_encoded_before_a_rename_enter_under_the_new_name,
    ),
    "a new version of a table is not seen": noticed(
        CopiedTable.receive, "writer is not self.writer", "False",
        altered.test_new_version_in_the_stream_voids_the_chunk_and_the_copy_begins_again,
    ),
    "a window is not shown a change": noticed(
        CopiedTable.receive, "chunk.receive(xid, change)", "pass",
        windows.test_change_that_the_snapshot_lacks_is_laid_over_the_rows,
    ),
    "keys that moved are not in progress": noticed(
        TableCopies.receive, "self._remember(copied.state)", "pass",
        listed.test_listed_keys_are_in_progress_of_the_cut_that_brought_them,
    ),
    "keys that are not listed any more are behind the bound": noticed(
        CopiedTable.receive, "self._spoil(Void.READ_ANEW)", "pass",
        patched(listed.test_more_listed_keys_than_progress_holds_begin_the_reading_anew),
    ),
    "a table without a key is looked at by its key": noticed(
        CopiedTable.receive, "not writer.has_key", "False",
        altered.test_table_that_loses_its_key_meanwhile_is_published_on_until_it_is_copied_in_one_piece,
    ),
    # What goes into topics and progress.
    "progress of a chunk comes with the next cut": noticed(
        CopyRecords.enter, "self._close(progress_after(), lsn)",
        "progress_after(); self._close(out.tracker.progress.tables[writer.relation.table.relation_id], lsn)",
        chunks.test_table_is_copied_chunk_by_chunk_and_is_current_behind_its_last_row,
    ),
    "a beginning has no record in the topic": noticed(
        CopyRecords.begin,
        "self._out.send_to_all_partitions(writer, writer.marker(FIRST, source, self._out.ts_ms))", "pass",
        chunks.test_table_is_copied_chunk_by_chunk_and_is_current_behind_its_last_row,
    ),
    "an end has no record in the topic": noticed(
        CopyRecords.end,
        "self._out.send_to_all_partitions(writer, writer.marker(LAST, source, self._out.ts_ms))", "pass",
        chunks.test_table_is_copied_chunk_by_chunk_and_is_current_behind_its_last_row,
    ),
    "an end is no barrier": noticed(
        CopyRecords.end, 'self._out.add_barrier(writer, "copy_end", Position(lsn, COPIED_ORDINAL))', "pass",
        chunks.test_table_is_copied_chunk_by_chunk_and_is_current_behind_its_last_row,
    ),
    "rows of a new session have no shape": noticed(
        CopyRecords.enter, 'out.add_barrier(writer, "shape", Position(lsn, COPIED_ORDINAL))', "pass",
        altered.test_first_rows_of_a_session_have_their_shape,
    ),
    # Which tables.
    "a table made again takes the topic of one that is there": noticed(
        CopyStart._topic_of, "if live and (gone := live - self._watch.now.names_of(live).keys()):", "if gone := {*()}:",
        begin.test_table_made_again_waits_until_the_one_before_it_is_known_to_be_gone,
    ),
    "a table made again takes a topic that is another one by now": noticed(
        CopyStart._is_inherited_topic, "(topic, here.topic_id, DROPPED)", "(topic, known.topic_id, DROPPED)",
        partial(copies_topics.test_topic_that_is_not_the_one_that_was_left_is_not_made_or_taken_again, ANOTHER),
    ),
    "a table without a key gets several partitions": noticed(
        CopyStart._why_unfit, "not described.key_columns", "False",
        copies_topics.test_table_made_again_without_a_key_gets_a_topic_of_one_partition,
    ),
    "a table is copied that left the publication": noticed(
        CopyStart.record_of, "record.membership is None or record.membership != found.membership", "False",
        begin.test_table_that_left_the_publication_meanwhile_does_not_begin,
    ),
    "what is not in the publication is asked for": noticed(
        TablesToCopy.note_publication, " if table.relation_id in self._listed", "",
        begin.test_table_whose_change_comes_is_looked_for_in_the_publication,
    ),
    "a table that cannot be copied now is forgotten": noticed(
        TablesToCopy.put_off, "self._later[relation_id] = time.monotonic() + pause_s", "pass",
        begin.test_table_that_is_refused_is_tried_again_ever_later,
    ),
}  # fmt: skip


@pytest.mark.parametrize("noticed", NOTICED.values(), ids=NOTICED)
def test_mistake_is_noticed(noticed: Noticed) -> None:
    noticed.check()
