"""A topic as a broker describes it. Pure."""

from typing import NamedTuple

TOPIC_ID_LENGTH = 8
"""Of the 22 characters of a topic's id: enough to tell two lives of one topic apart."""


class DescribedTopic(NamedTuple):
    """A topic as it is: one that was made anew has another id. Before Kafka 2.8 all have the same."""

    topic_id: str
    partition_count: int
