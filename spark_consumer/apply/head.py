"""Where a table stands when a plan is (re-)applied: the rule that makes a plan idempotent (I5).

In: the commits since the plan's base version. Out: how many segments are done, or None: somebody
else changed the table, it must go back to the base first. Pure.

- A segment is done by its data commit. A commit for a later segment shows that the segments before it had nothing to
  commit; applying them again would give the table an old shape.
- A commit for a segment that is done already is of another job with the same plan in work. Spark appends behind
  whatever it finds, so the segment's rows may be there twice: the table goes back to its base.
- Commits that change no data (OPTIMIZE) are skipped.
- A restore by this plan voids everything before it. So does an overwrite by a first segment that empties the table;
  rows that executors append afterwards void nothing.
- A commit with files that the driver lacks counts as another program's.
"""

from collections.abc import Iterable

from walbridge.spark_consumer.delta.commit import DATA, RESTORE, Commit


def segments_done(commits: Iterable[Commit], plan: str, *, first_empties: bool) -> int | None:
    """Number of segments done, from commits in order; None if another program's commit counts."""
    done: int | None = 0
    for commit in commits:
        if commit.is_lost:
            done = None
            continue
        completes = commit.step == DATA
        heals = commit.step == RESTORE or (first_empties and commit.overwrites and commit.segment == 0)
        if commit.plan is None and not commit.changes_data:
            continue
        goes_on = heals or (done is not None and commit.segment >= done)
        done = commit.segment + completes if commit.plan == plan and goes_on else None
    return done


def is_untouched(commits: Iterable[Commit]) -> bool:
    """Whether nobody has written rows since the base, neither this plan nor another program."""
    return all(commit.plan is None and not commit.changes_data for commit in commits)
