"""Partitions that come and go below a published root, of which the stream says nothing.

In: the trees as they are, look after look. Out: what to tell the operator, or a refusal where a
partition's old rows are not what the root's identity says of them: a change of key would pass for an
update, or a column that was not logged for null. No I/O. Made and dropped partitions are everyday's
work of partitioned tables, so they are told, and nothing stops; what was attached or detached between
two runs is not seen.
"""

from collections.abc import Iterable, Sequence

from walbridge.producer.postgres.facts import Partition
from walbridge.schemas.errors import COPY_AGAIN, OperatorError


class PartitionWatch:
    """Remembers the trees of the last look."""

    def __init__(self) -> None:
        self._known: dict[int, Partition] | None = None

    def look(self, trees: Sequence[Partition]) -> list[tuple[str, str]]:
        """What changed since the last look, with its remedy.

        Raises:
            OperatorError: a partition's replica identity does not hold the root's key (I5, I6).
        """
        roots = {each.root: each for each in trees if each.relation_id == each.root}
        leaves = {each.relation_id: each for each in trees if each.relation_id != each.root}
        for fault in identity_faults(trees):
            raise fault
        before, self._known = self._known, leaves | roots
        if before is None:
            return []
        left = [each for key, each in before.items() if key not in leaves and key != each.root and each.root in roots]
        came = [each for key, each in leaves.items() if key not in before and not each.is_born]
        return [*_told_left(left, roots), *_told_came(came, roots)]


def _told_left(left: Iterable[Partition], roots: dict[int, Partition]) -> Iterable[tuple[str, str]]:
    for leaf in left:
        root = roots[leaf.root].name
        yield (
            f"partition {leaf.name} left {root}: Postgres sends no deletes of its rows, the lake keeps them",
            f"to have them deleted: ALTER TABLE {root} ATTACH PARTITION {leaf.name} ...; DELETE its rows; detach it",
        )


def _told_came(came: Iterable[Partition], roots: dict[int, Partition]) -> Iterable[tuple[str, str]]:
    for leaf in came:
        root = roots[leaf.root].name
        yield (
            f"partition {leaf.name} was attached to {root}: rows that it had before did not come",
            f"if it had any: detach it, and INSERT INTO {root} SELECT * FROM {leaf.name}; or " + COPY_AGAIN,
        )


def identity_faults(trees: Sequence[Partition]) -> Iterable[OperatorError]:
    """The partitions whose old rows cannot be read by their root's identity, each with its remedy.

    Old rows are logged by the leaf's identity, but announced under the root's. A leaf whose identity carries no
    update does no harm: Postgres itself refuses the update then.
    """
    roots = {each.root: each for each in trees if each.relation_id == each.root}
    for leaf in trees:
        root = roots[leaf.root]
        if leaf is not root and leaf.carries_updates and (remedy := _remedy(root, leaf)) is not None:
            yield OperatorError(
                f"partition {leaf.name} has another replica identity than {root.name}, through which it is "
                "published: what its old rows hold is not what they say",
                remedy=remedy,
            )


def _remedy(root: Partition, leaf: Partition) -> str | None:
    full = f"ALTER TABLE {leaf.name} REPLICA IDENTITY FULL;"
    if root.replica_identity == "f":
        # Else the columns outside of the leaf's key are null in an old row that says it is whole.
        return None if leaf.replica_identity == "f" else full
    if not root.key_columns:
        return (
            f"ALTER TABLE {root.name} ADD PRIMARY KEY (...); or ALTER TABLE {root.name} REPLICA IDENTITY FULL; {full} "
            f"or, where rows never change, ALTER TABLE {leaf.name} REPLICA IDENTITY NOTHING;"
        )
    if leaf.replica_identity == "f" or root.key_columns <= leaf.key_columns:
        return None
    return f"ALTER TABLE {leaf.name} REPLICA IDENTITY DEFAULT;" if leaf.replica_identity == "i" else full
