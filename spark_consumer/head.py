"""Where a table stands when a plan is (re-)applied: the rule that makes a plan idempotent (I5).

In: the commits since the plan's base version. Out: how many segments are done, or None: somebody
else changed the table, it must go back to the base first. Pure.

A segment is done by the one commit that carries its number; the plan's other commits (create,
shape) repeat harmlessly. Commits that change no data (OPTIMIZE) are skipped. A restore by this
plan voids everything before it. A first segment that empties the table does so too.
"""

from collections.abc import Iterable

from spark_consumer.table import Commit

RESTORE = "restore"


def segments_done(commits: Iterable[Commit], plan: str, *, first_empties: bool) -> int | None:
    """Number of segments done, from commits in order; None if another program's commit counts."""
    done: int | None = 0
    for commit in commits:
        if not commit.changes_data and commit.plan is None:
            continue
        if commit.plan != plan:
            done = None
        elif commit.step == RESTORE or (first_empties and commit.segment == 0):
            done = 0
        if done is not None and commit.plan == plan and commit.segment is not None:
            done = commit.segment + 1
    return done
