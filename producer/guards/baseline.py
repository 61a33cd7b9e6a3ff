"""The baseline: the ids of publications, their members and topics at the time of the copy. Ids are never reused.

In: the baseline that progress carries, and the publication and topics as they are now. Out: tables
that left, or an ``OperatorError``: what the stream never says, because it just sends less (I7).
Pure. What is of one table rides in its record of progress; what is of all, in ``Progress.options`` under
names of its own. So it is compared across restarts too; a progress without it takes what there is as given.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from walbridge.producer.errors.publications import (
    operations_missing,
    publication_gone,
    publication_remade,
    publication_renamed,
)
from walbridge.producer.errors.topics import topic_gone, topic_remade
from walbridge.producer.kafka.topic_found import TopicFound
from walbridge.producer.pgoutput.options import PUBLICATION_NAMES, names_in
from walbridge.producer.postgres.facts import PublicationState
from walbridge.producer.postgres.publications.combined_publications import (
    NAMED_OTHERWISE,
    changed_members,
    generated_by_publication,
    has_version,
    tells_more,
    told_beside,
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

    A progress of format 1 has the ids of all topics in ``control_topics``, until ``with_topics``.
    """

    publications: frozenset[int]
    tables: Mapping[int, TableProgress]
    control_topics: Mapping[str, str]
    generated_columns: str | None = None

    @classmethod
    def of(cls, progress: Progress) -> "Baseline | None":
        """The one that a progress carries."""
        options = progress.options
        if _PUBLICATION not in options:
            return None
        publications = frozenset(map(int, options[_PUBLICATION].split()))
        return cls(publications, progress.tables, pairs(options[_TOPICS]), options.get(GENERATED_OPTION))

    @property
    def options(self) -> dict[str, str]:
        """What a progress carries of it beside its tables."""
        generated = {} if self.generated_columns is None else {GENERATED_OPTION: self.generated_columns}
        return generated | {
            _PUBLICATION: " ".join(map(str, sorted(self.publications))),
            _TOPICS: " ".join(f"{topic}:{an_id}" for topic, an_id in self.control_topics.items()),
        }

    @property
    def topics(self) -> dict[str, str]:
        """Topic → id, of all that were written to."""
        of_tables = {table.topic: table.topic_id for table in self.tables.values()}
        return {**self.control_topics, **{topic: an_id for topic, an_id in of_tables.items() if topic and an_id}}

    def with_topics(self, topics: Mapping[int, str]) -> "Baseline":
        """The same with the ids of data topics at their tables, which a progress of format 1 did not know apart.

        Args:
            topics: by relation id.
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
        """The same of one table alone."""
        return replace(self, tables={each: table for each, table in self.tables.items() if each == relation_id})

    def dropped(self, names: Sequence[str], now: PublicationState) -> set[int]:
        """The relations that are members no more, of publications that ``refuse_lost_publications`` let pass.

        Raises:
            OperatorError: operations of all tables do not come.
        """
        if now.missing_operations:
            is_told_later = all(map(has_version, self._members.values()))
            raise operations_missing(names, now.missing_operations, is_told_later=is_told_later)
        return self._members.keys() - now.members.keys()

    def beside(self, now: PublicationState) -> "Baseline":
        """The same facts where these publications are followed instead: what they tell otherwise has changed."""
        oids = frozenset(now.oids.values())
        tables = {
            each: replace(self.tables[each], membership=told_beside(membership, self.publications, oids))
            for each, membership in self._members.items()
        }
        generated = self.generated_columns
        if generated is not None:
            before, after = (
                generated_by_publication(text, of)
                for text, of in ((generated, self.publications), (now.generated_columns, oids))
            )
            if all(before[oid] == after[oid] for oid in before.keys() & after.keys()):
                generated = now.generated_columns  # of a table in the others alone, its membership tells
        return replace(self, publications=oids, tables={**self.tables, **tables}, generated_columns=generated)

    def is_of(self, now: PublicationState) -> bool:
        """Whether these are the publications that it was taken of."""
        return frozenset(now.oids.values()) == self.publications

    def changed(self, now: PublicationState) -> dict[int, list[str]]:
        """The relations that are members for another reason than they were, and of which publications: some of their
        changes may be missing."""
        return {
            each: _concerned(before, token, now)
            for each, before, token in self._compared(now)
            if without_version(before) != without_version(token)
        }

    def named_otherwise(self, now: PublicationState) -> set[int]:
        """The relations of which nothing comes under their own name, whatever was written down of them: on 13 and 14
        earlier code followed a partition beside the root through which it is published."""
        return {each for each in self.tables if now.members.get(each) == NAMED_OTHERWISE}

    def altered(self, now: PublicationState) -> dict[int, list[str]]:
        """The relations that are members as they were, but may not have been meanwhile, and of which publications."""
        return {
            each: _concerned(before, token, now)
            for each, before, token in self._compared(now)
            if without_version(before) == without_version(token)
            and has_version(before)
            and before != token
            and not tells_more(before, token)
        }

    def unversioned(self, now: PublicationState) -> dict[int, str]:
        """The relations that are members as earlier code wrote down, and what is known of them now: nobody can say what
        they were meanwhile."""
        return {
            each: token
            for each, before, token in self._compared(now)
            if tells_more(before, token) or (not has_version(before) and before == without_version(token) != token)
        }

    def _compared(self, now: PublicationState) -> Iterator[tuple[int, str, str]]:
        return ((each, before, now.members.get(each, before)) for each, before in self._members.items())

    def has_other_generated_columns(self, now: PublicationState) -> bool:
        """Whether stored generated columns are published that were not, or the other way round."""
        return self.generated_columns not in (None, now.generated_columns)

    @property
    def _members(self) -> dict[int, str]:
        return {each: table.membership for each, table in self.tables.items() if table.membership is not None}

    def refuse_other_control_topics(self, topics: Mapping[str, TopicFound]) -> None:
        """Compare with those that the broker has now.

        Raises:
            OperatorError: a topic of all tables is gone, or was made anew and lacks what was in it.
        """
        for topic, an_id in self.control_topics.items():
            if topic not in topics:
                raise topic_gone(topic)
            if topics[topic].topic_id != an_id:
                raise topic_remade(topic)


def followed_names(progress: Progress, names: Sequence[str]) -> Sequence[str]:
    """The publications that were followed; ``names``, where earlier code did not write that down."""
    asked = progress.options.get(PUBLICATION_NAMES)
    return names if asked is None else names_in(asked)


def followed_origin(progress: Progress) -> str:
    """Changes of which origins the lake has; earlier code told it by the options of its stream alone."""
    return progress.options.get(ORIGIN_OPTION, progress.options.get("origin", "any"))


def refuse_lost_publications(
    progress: Progress, names: Sequence[str], now: PublicationState, wanted: Sequence[str] = ()
) -> None:
    """Compare those that were followed, and are asked for still, as they are now.

    Args:
        names: those that a session asks for.
        wanted: those that settings name, where it does not ask for them yet.

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


def _concerned(before: str, token: str, now: PublicationState) -> list[str]:
    oids = changed_members(before, token)
    return [name for name, oid in now.oids.items() if oid in oids] or [*now.oids]
