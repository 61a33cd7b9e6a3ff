"""What new files of a table say of its rows: pure, but for facts that sessions collect."""

from __future__ import annotations

from dataclasses import replace

from tests.producer.kept import ORDERS, Kept
from tests.producer.streaming_progress import STREAMING, current
from walbridge.producer.errors.tables import labels_changed, table_rewritten
from walbridge.producer.guards.doubts.file_judge import FileJudge, Judgement
from walbridge.producer.postgres.facts import TableFile, TableStorage
from walbridge.schemas.errors import OperatorError

FILE = TableFile(ORDERS, ORDERS, 0, 2)
KNOWN = TableStorage((FILE,))
PARTITION = TableFile(ORDERS + 1, ORDERS + 1, 0, 2)


class Judged(Kept):
    """A table whose changes are published under all operations, unless told."""

    def __init__(self, membership: str = "*") -> None:
        tables = {each: replace(table, membership=membership) for each, table in current(ORDERS).items()}
        super().__init__(progress=replace(STREAMING, tables=tables))
        self.facts, self.truncations = self.kept_watch.stream_facts, self.kept_watch.doubts.truncations
        self.judge = FileJudge(self.facts, self.truncations, self.tracker, lambda relation_id: "public.orders")

    def of(self, *now: TableFile, columns: OperatorError | None = None) -> Judgement:
        return self.judge.judge(ORDERS, KNOWN, TableStorage(now), columns)


def test_table_with_the_same_files_is_in_no_doubt() -> None:
    assert Judged().of(FILE) == Judgement()


def test_new_file_waits_for_the_truncate_that_may_explain_it() -> None:
    """I8: until then nobody knows whether rows came with it."""
    new = replace(FILE, file=ORDERS + 7)
    judgement = Judged().of(new)

    assert judgement.awaited == [new]
    assert judgement.doubt is not None


def test_truncate_that_the_stream_brought_explains_the_new_file() -> None:
    judged, new = Judged(), replace(FILE, file=ORDERS + 7, written_by_xid=80)
    judged.truncations.receive([ORDERS], 80)

    assert judged.of(new) == Judgement()


def test_unlogged_partition_is_a_doubt_that_nothing_in_the_stream_ends() -> None:
    judgement = Judged().of(FILE, replace(PARTITION, is_logged=False))

    assert judgement.awaited is None
    assert judgement.doubt is not None


def test_doubt_about_columns_is_told_where_files_are_as_before() -> None:
    reason = labels_changed("public.orders")
    assert Judged().of(FILE, columns=reason).doubt == reason


def test_doubt_that_a_ddl_row_dates_waits_for_that_row_with_files_of_no_known_time() -> None:
    judged, written = Judged(), replace(FILE, written_by_xid=80)
    judged.facts.has_ddl_rows = True

    assert judged.of(written, columns=table_rewritten("public.orders")).awaited == [FILE]
    assert judged.of(written, columns=labels_changed("public.orders")).awaited is None
