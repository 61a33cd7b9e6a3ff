"""What the copy was made beside: the publication's members and the topics, by ids that are never given twice.

In: the baseline that progress carries, and the publication and topics as they are now. Out: tables
that left, or an ``OperatorError``: what the stream never says, because it just sends less (I7).
Pure. It rides in ``Progress.options`` under names of its own, so that it is compared across
restarts too; a progress without it takes what there is as given.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from walbridge.producer import errors
from walbridge.producer.postgres.facts import PublicationState
from walbridge.schemas.progress_record import OWN_OPTIONS

_PUBLICATION, _MEMBERS, _TOPICS, _GENERATED = (
    f"{OWN_OPTIONS}{name}" for name in ("publication", "members", "topics", "generated")
)
TOPIC_ID_LENGTH = 8
"""Of the 22 characters of a topic's id: enough to tell two lives of one topic apart."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """``members``: relation id → membership; ``topics``: topic → id; ``generated_columns`` as in
    ``PublicationState``, None where earlier code did not write it down."""

    publication: int
    members: Mapping[int, str]
    topics: Mapping[str, str]
    generated_columns: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "Baseline | None":
        """The one in a progress' options."""
        if _PUBLICATION not in options:
            return None
        members = _pairs(options[_MEMBERS])
        return cls(
            int(options[_PUBLICATION]),
            {int(relation_id): token for relation_id, token in members.items()},
            _pairs(options[_TOPICS]),
            options.get(_GENERATED),
        )

    @property
    def options(self) -> dict[str, str]:
        """As a progress carries it."""
        generated = {} if self.generated_columns is None else {_GENERATED: self.generated_columns}
        return generated | {
            _PUBLICATION: str(self.publication),
            _MEMBERS: " ".join(f"{relation_id}:{token}" for relation_id, token in self.members.items()),
            _TOPICS: " ".join(f"{topic}:{an_id}" for topic, an_id in self.topics.items()),
        }

    def dropped(self, name: str, now: PublicationState | None, table_name: Callable[[int], str]) -> set[int]:
        """The relations that are members no more.

        Args:
            name: of the publication.
            table_name: of a relation, for messages.

        Raises:
            OperatorError: changes may be missing in a way that no barrier can say.
        """
        if now is None:
            raise errors.publication_gone(name)
        if now.oid != self.publication:
            raise errors.publication_remade(name)
        if now.missing_operations:
            raise errors.operations_missing(name, now.missing_operations)
        if self.generated_columns not in (None, now.generated_columns):
            raise errors.generated_columns_changed(name)
        for relation_id, token in self.members.items():
            if now.members.get(relation_id, token) != token:
                raise errors.membership_changed(name, table_name(relation_id))
        return set(self.members) - set(now.members)

    def refuse_other_topics(self, topics: Mapping[str, str]) -> None:
        """Compare with the ids that the broker gives now.

        Raises:
            OperatorError: a topic is gone, or was made anew and lacks what was in it.
        """
        for topic, an_id in self.topics.items():
            if topic not in topics:
                raise errors.topic_gone(topic)
            if topics[topic] != an_id:
                raise errors.topic_remade(topic)


def _pairs(text: str) -> dict[str, str]:
    return dict(pair.split(":", 1) for pair in text.split())
