"""The baseline: the ids of publications, their members and topics at the time of the copy. Ids are never reused.

In: the baseline that progress carries, and the publication and topics as they are now. Out: the tables that left, or an
``OperatorError``. The stream reports neither: Postgres just sends less (I7). Pure.

Progress carries the baseline, so that it is compared after a restart as well: the facts of one table in the table's
record, those of all tables in ``Progress.options``. Where progress has no baseline, the next session takes one.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from walbridge.producer.errors.publications import (
    operations_missing,
    publication_gone,
    publication_remade,
    publication_renamed,
)
from walbridge.producer.errors.topics import topic_gone, topic_remade
from walbridge.producer.kafka.described_topic import DescribedTopic
from walbridge.producer.pgoutput.options import PUBLICATION_NAMES, names_in
from walbridge.producer.postgres.facts import PublicationState
from walbridge.producer.postgres.publications.combined_publications import (
    UNDER_OTHER_NAME,
    changed_members,
    differs_only_in_columns,
    generated_by_publication,
    has_version,
    may_be_member,
    restated_membership,
    without_version,
)
from walbridge.schemas.control.progress_record import OWN_OPTIONS, Progress, pairs
from walbridge.schemas.control.table_progress import TableProgress

_PUBLICATION, _TOPICS, GENERATED_OPTION = (f"{OWN_OPTIONS}{name}" for name in ("publication", "topics", "generated"))
ORIGIN_OPTION = f"{OWN_OPTIONS}origin"
"""Changes of which origins the lake has: as ``postgres.origin``."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """``publications``: their ids; ``tables``: by relation id; ``control_topics``: topic → id; ``generated_columns``
    as in ``PublicationState``, None where earlier code did not write it down.

    Of a progress of format 1, ``control_topics`` holds the ids of all topics until ``with_table_topics`` is called.
    """

    publications: frozenset[int]
    tables: Mapping[int, TableProgress]
    control_topics: Mapping[str, str]
    generated_columns: str | None = None

    @classmethod
    def of(cls, progress: Progress) -> "Baseline | None":
        """The baseline that this progress carries; None where it has none."""
        options = progress.options
        if _PUBLICATION not in options:
            return None
        publications = frozenset(map(int, options[_PUBLICATION].split()))
        return cls(publications, progress.tables, pairs(options[_TOPICS]), options.get(GENERATED_OPTION))

    @property
    def options(self) -> dict[str, str]:
        """The part of the baseline that ``Progress.options`` holds."""
        generated = {} if self.generated_columns is None else {GENERATED_OPTION: self.generated_columns}
        return generated | {
            _PUBLICATION: " ".join(map(str, sorted(self.publications))),
            _TOPICS: " ".join(f"{topic}:{an_id}" for topic, an_id in self.control_topics.items()),
        }

    @property
    def topics(self) -> dict[str, str]:
        """The id of each topic that was written to, by name."""
        of_tables = {table.topic: table.topic_id for table in self.tables.values()}
        return {**self.control_topics, **{topic: an_id for topic, an_id in of_tables.items() if topic and an_id}}

    def with_table_topics(self, topics: Mapping[int, str]) -> "Baseline":
        """This baseline with the ids of data topics moved to their tables: format 1 kept all ids in one place.

        Args:
            topics: the name of each table's topic, by relation id.
        """
        unplaced = {each for each, table in self.tables.items() if table.topic is None and each in topics}
        if not unplaced:
            return self
        ids = dict(self.control_topics)
        placed = {
            each: replace(self.tables[each], topic=topics[each], topic_id=self.control_topics.get(topics[each]))
            for each in sorted(unplaced)
        }
        for table in placed.values():
            ids.pop(str(table.topic), None)
        return replace(self, tables={**self.tables, **placed}, control_topics=ids)

    def of_table(self, relation_id: int) -> "Baseline":
        """This baseline with one table only."""
        return replace(self, tables={each: table for each, table in self.tables.items() if each == relation_id})

    def no_longer_published(self, names: Sequence[str], now: PublicationState) -> set[int]:
        """The relations that are not members any more. The caller has called ``refuse_lost_publications`` before.

        Raises:
            OperatorError: the publications leave operations out.
        """
        if now.missing_operations:
            is_detectable_later = all(map(has_version, self._memberships.values()))
            raise operations_missing(names, now.missing_operations, is_detectable_later=is_detectable_later)
        return self._memberships.keys() - now.members.keys()

    def restated_for(self, now: PublicationState) -> "Baseline":
        """This baseline as it would read if these other publications had been followed. So a comparison with ``now``
        finds exactly the tables that they publish in another way."""
        oids = frozenset(now.oids.values())
        tables = {
            each: replace(self.tables[each], membership=restated_membership(membership, self.publications, oids))
            for each, membership in self._memberships.items()
        }
        generated = self.generated_columns
        if generated is not None:
            before, after = self._generated_by_publication(now)
            if all(before[oid] == after[oid] for oid in before.keys() & after.keys()):
                generated = now.generated_columns  # a table that only the others publish has another membership
        return replace(self, publications=oids, tables={**self.tables, **tables}, generated_columns=generated)

    def has_same_publications(self, now: PublicationState) -> bool:
        """Whether the baseline was taken of these very publications."""
        return frozenset(now.oids.values()) == self.publications

    def changed_memberships(self, now: PublicationState) -> dict[int, list[str]]:
        """The relations that are members in another way than before, each with the publications that differ: some of
        their changes may be missing."""
        return {
            each: _changed_publications(before, token, now)
            for each, before, token in self._compared(now)
            if without_version(before) != without_version(token)
        }

    def published_under_other_name(self, now: PublicationState) -> set[int]:
        """The relations whose changes never come under their own name, whatever their membership was before: on
        Postgres 13 and 14, earlier code also followed partitions of a root that publishes their changes."""
        return {each for each in self.tables if now.members.get(each) == UNDER_OTHER_NAME}

    def maybe_interrupted(self, now: PublicationState) -> dict[int, list[str]]:
        """The relations that are members as before, but may not have been in between, each with the publications where
        that is so."""
        return {
            each: _changed_publications(before, token, now)
            for each, before, token in self._compared(now)
            if without_version(before) == without_version(token)
            and has_version(before)
            and before != token
            and not differs_only_in_columns(before, token)
        }

    def memberships_to_remember(self, now: PublicationState) -> dict[int, str]:
        """Memberships of relations that are members as before, where more is known of them now than progress holds:
        earlier code wrote down less, so it cannot be told whether they were members in between."""
        return {
            each: token
            for each, before, token in self._compared(now)
            if differs_only_in_columns(before, token)
            or (not has_version(before) and before == without_version(token) != token)
        }

    def _compared(self, now: PublicationState) -> Iterator[tuple[int, str, str]]:
        """Relation id, membership before, membership now; of members that left, the one before twice."""
        return ((each, before, now.members.get(each, before)) for each, before in self._memberships.items())

    def with_other_generated_columns(self, now: PublicationState) -> dict[int, str]:
        """The publications that publish stored generated columns and did not, or the other way round; their names."""
        if self.generated_columns in (None, now.generated_columns):
            return {}
        before, after = self._generated_by_publication(now)
        return {oid: name for name, oid in now.oids.items() if before.get(oid, after[oid]) != after[oid]}

    def may_be_in(self, publications: Collection[int], relation_id: int) -> bool:
        """Whether this relation may be a member of one of them; one that comes or goes has another membership."""
        membership = self._memberships.get(relation_id)
        return membership is None or may_be_member(membership, publications)

    def _generated_by_publication(self, now: PublicationState) -> tuple[dict[int, str], dict[int, str]]:
        """As the baseline has it, and as it is now."""
        known = "" if self.generated_columns is None else self.generated_columns
        oids = frozenset(now.oids.values())
        return generated_by_publication(known, self.publications), generated_by_publication(now.generated_columns, oids)

    @property
    def _memberships(self) -> dict[int, str]:
        return {each: table.membership for each, table in self.tables.items() if table.membership is not None}

    def refuse_other_control_topics(self, topics: Mapping[str, DescribedTopic]) -> None:
        """Compare the topics of all tables with those that the broker has now.

        Raises:
            OperatorError: a topic of all tables is gone, or was made anew and lacks what was in it.
        """
        for topic, an_id in self.control_topics.items():
            if topic not in topics:
                raise topic_gone(topic)
            if topics[topic].topic_id != an_id:
                raise topic_remade(topic)


def followed_names(progress: Progress, names: Sequence[str]) -> Sequence[str]:
    """The publications that were followed; ``names`` where earlier code did not write them down."""
    asked = progress.options.get(PUBLICATION_NAMES)
    return names if asked is None else names_in(asked)


def followed_origin(progress: Progress) -> str:
    """The origin filter under which the lake's changes came; earlier code kept it in the options of its stream only."""
    return progress.options.get(ORIGIN_OPTION, progress.options.get("origin", "any"))


def refuse_lost_publications(
    progress: Progress, names: Sequence[str], now: PublicationState, wanted: Sequence[str] = ()
) -> None:
    """Compare the publications that were followed, and that a session still asks for, with those that exist now.

    Args:
        names: the publications that the session asks for.
        wanted: the publications that settings name, where the session does not ask for them yet.

    Raises:
        StreamLost: changes of all tables may be missing: one was dropped, renamed, or made again.
    """
    baseline = Baseline.of(progress)
    if baseline is None:
        return
    followed = [name for name in names if name in followed_names(progress, names)]
    if gone := [name for name in followed if name not in now.oids]:
        renamed = [name for oid, name in sorted(now.others.items()) if oid in baseline.publications]
        if len(gone) == len(renamed) == 1:
            raise publication_renamed(gone[0], renamed[0])
        raise publication_gone(gone, wanted or None)
    if remade := [name for name in followed if now.oids[name] not in baseline.publications]:
        raise publication_remade(remade)


def _changed_publications(before: str, token: str, now: PublicationState) -> list[str]:
    """The publications in which a membership changed; all of them where that cannot be told apart."""
    oids = changed_members(before, token)
    return [name for name, oid in now.oids.items() if oid in oids] or [*now.oids]
