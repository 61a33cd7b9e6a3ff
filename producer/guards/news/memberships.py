"""Tables whose membership of the publications changed, or was interrupted for a while.

In: the baseline in progress, and the publications as they are. Out: doubts; and the memberships that earlier code wrote
down without versions, completed by what is known now.
"""

from dataclasses import replace

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.errors.publications import (
    generated_columns_changed,
    membership_changed,
    publication_altered,
    published_under_other_name,
)
from walbridge.producer.guards.baseline import GENERATED_OPTION, Baseline
from walbridge.producer.guards.doubts.doubts import Doubts
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublicationState
from walbridge.producer.postgres.publications.publication import with_generated_columns
from walbridge.producer.relations.tables import Tables


class Memberships:
    """The comparisons of one session."""

    def __init__(self, connection: SqlConnection, tables: Tables, tracker: ProgressTracker, doubts: Doubts) -> None:
        self._connection, self._name = connection, tables.versions.name
        self._tracker, self._doubts = tracker, doubts

    def compare(self, baseline: Baseline, now: PublicationState) -> None:
        """Compare the memberships of the baseline with those of now, and add doubts where they differ.

        Raises:
            OperatorError: settings say that a doubt stops all.
        """
        changed, followed = baseline.changed_memberships(now), set(self._tracker.progress.relation_ids)
        otherwise = baseline.published_under_other_name(now) & followed
        doubts = self._doubts
        doubts.add({each: published_under_other_name([*now.oids], self._name(each)) for each in otherwise})
        doubts.add({each: membership_changed(changed[each], self._name(each)) for each in changed.keys() & followed})
        if others := baseline.with_other_generated_columns(now):
            members = [each for each in self._tracker.progress.relation_ids if baseline.may_be_in(others, each)]
            doubts.add(
                {
                    each: generated_columns_changed([*others.values()], self._name(each))
                    for each in with_generated_columns(self._connection, members)
                },
                {GENERATED_OPTION: str(now.generated_columns)},
            )
        interrupted = baseline.maybe_interrupted(now)
        doubts.add(
            {each: publication_altered(interrupted[each], self._name(each)) for each in interrupted.keys() & followed}
        )
        if new := {each: token for each, token in baseline.memberships_to_remember(now).items() if each not in doubts}:
            tables = self._tracker.progress.tables
            self._tracker.remember_tables({each: replace(tables[each], membership=new[each]) for each in new})
