"""Partitions whose changes are never sent, or whose old rows do not fit the replica identity of their root. Pure.

In: the partition trees as they are, or as the stream announces them. Out: refusals, since a change of key would pass
for an update, or a column that was not logged for null (I5, I6). Partitions that come and go with rows are doubts
(``partition_rows.py``).
"""

from collections.abc import Iterable, Iterator, Sequence

from walbridge.producer.pgoutput.messages import Relation
from walbridge.producer.postgres.facts import Partition
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.table_schema import quoted

_ATTACH_KEYS = (
    "for each partition without it: ALTER TABLE <partition> ADD PRIMARY KEY (...); ALTER INDEX <the key of {0}> ATTACH "
    "PARTITION <that of the partition>; or ALTER TABLE {0} DROP CONSTRAINT <its key>"
)


def identity_faults(trees: Sequence[Partition]) -> Iterator[tuple[int, OperatorError]]:
    """The roots with a partition whose old rows cannot be read by the root's identity (I5, I6), each with its remedy.

    Old rows are logged by the leaf's identity, but announced with the root's. A leaf whose identity allows no update
    does no harm, since Postgres itself refuses the update.
    """
    roots = {each.root: each for each in trees if each.relation_id == each.root}
    for root in (each for each in roots.values() if each.has_invalid_key):
        what = f"the primary key of {root.name} is not one of all its partitions yet: rows of theirs may be equal in it"
        yield root.root, OperatorError(what, remedy=_ATTACH_KEYS.format(root.name))
    for leaf in trees:
        root = roots[leaf.root]
        if leaf is not root and leaf.carries_updates and (remedy := _remedy(root, leaf)) is not None:
            what = (
                f"partition {leaf.name} has another replica identity than {root.name}, through which it is "
                "published: what its old rows hold is not what they say"
            )
            yield root.relation_id, OperatorError(what, remedy=remedy)


def announced_fault(root: Relation, leaf: Relation) -> OperatorError | None:
    """The same of a partition that the stream announces for its next change: by the next look its identity may be
    another one again."""
    trees = [_announced(root.relation_id, each) for each in (root, leaf)]
    return next((fault for _, fault in identity_faults(trees)), None)


def _announced(root: int, relation: Relation) -> Partition:
    """A Relation flags the columns of the identity; under FULL the key is not asked for."""
    flagged = frozenset(each.name for each in relation.columns if each.in_replica_identity)
    name = f"{quoted(relation.namespace)}.{quoted(relation.name)}"
    return Partition(root, relation.relation_id, name, relation.replica_identity, flagged)


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


def unsent_faults(trees: Sequence[Partition]) -> Iterable[OperatorError]:
    """The partitions whose changes are not in the WAL, each with its remedy: a copy would hold their rows for ever."""
    roots = {each.root: each for each in trees if each.relation_id == each.root}
    for leaf in trees:
        root = roots[leaf.root]
        if leaf.never_sent:
            detach = f"ALTER TABLE {root.name} DETACH PARTITION {leaf.name};"
            yield OperatorError(
                f"partition {leaf.name} of {root.name} is {leaf.never_sent}: Postgres never sends its changes",
                remedy=detach if leaf.never_sent != "unlogged" else f"ALTER TABLE {leaf.name} SET LOGGED; or {detach}",
            )
