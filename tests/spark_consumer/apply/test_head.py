"""Which of a plan's segments a table already holds (I5)."""

from walbridge.spark_consumer.apply.head import is_untouched, segments_done
from walbridge.spark_consumer.delta.commit import Commit

PLAN = "p/epoch/1/7"


def own(segment: int = 0, step: str = "data", *, overwrites: bool = False) -> Commit:
    return Commit(PLAN, segment, step, overwrites=overwrites)


FOREIGN = Commit(None, step=None)
OPTIMIZE = Commit(None, step=None, changes_data=False)


def done(*commits: Commit, first_empties: bool = False) -> int | None:
    return segments_done(commits, PLAN, first_empties=first_empties)


def test_base_itself_has_nothing_done() -> None:
    assert done() == 0


def test_own_segments_count() -> None:
    assert done(own(step="shape"), own(0), own(1, "shape"), own(1), OPTIMIZE) == 2


def test_step_towards_a_segment_does_not_complete_it() -> None:
    assert done(own(0, "shape")) == 0


def test_step_towards_a_later_segment_completes_those_before() -> None:
    assert done(own(1, "shape")) == 1


def test_segment_without_rows_has_no_commit() -> None:
    assert done(own(0), own(2)) == 3


def test_foreign_commit_before_or_after_voids_all() -> None:
    assert done(FOREIGN, own(0)) is None
    assert done(own(0), FOREIGN) is None


def test_segments_of_another_plan_are_foreign() -> None:
    assert done(Commit("p/epoch/1/6", 0)) is None


def test_commits_before_a_restore_do_not_count() -> None:
    assert done(own(0), FOREIGN, own(step="restore")) == 0
    assert done(own(0), FOREIGN, own(step="restore"), own(0)) == 1


def test_emptying_first_segment_heals_what_was_before() -> None:
    assert done(FOREIGN, own(0, overwrites=True), own(1), first_empties=True) == 2
    assert done(own(0, overwrites=True), FOREIGN, first_empties=True) is None


def test_rows_added_to_what_was_emptied_heal_nothing() -> None:
    """Executors add them in a commit of their own."""
    emptied = own(0, "shape", overwrites=True)

    assert done(FOREIGN, emptied, own(0), first_empties=True) == 1
    assert done(emptied, first_empties=True) == 0
    assert done(emptied, FOREIGN, own(0), first_empties=True) is None


def test_later_segment_heals_nothing() -> None:
    """It adds to what the table holds."""
    assert done(own(0), FOREIGN, own(1), first_empties=True) is None
    assert done(FOREIGN, own(0, "shape"), first_empties=True) is None
    assert done(FOREIGN, own(1, overwrites=True), first_empties=True) is None


def test_segment_that_is_there_twice_voids_all() -> None:
    """Two jobs took the plan up, and executors of both added its rows."""
    emptied = own(0, "shape", overwrites=True)

    assert done(own(0), own(0)) is None
    assert done(own(0), own(1), own(0)) is None
    assert done(own(0), own(0, "shape"), own(0)) is None
    assert done(emptied, emptied, own(0), own(0), first_empties=True) is None
    assert done(own(0), own(0), own(step="restore"), own(0)) == 1
    assert done(own(0), own(0), emptied, own(0), first_empties=True) == 1


def test_a_table_is_in_doubt_once_anybody_wrote_rows_since_the_base() -> None:
    """A compaction or a property leaves none."""
    assert is_untouched([])
    assert is_untouched([OPTIMIZE, OPTIMIZE])
    assert not is_untouched([OPTIMIZE, FOREIGN])
    assert not is_untouched([own(0, "shape")])
    assert not is_untouched([own(0)])
