"""What is told of partitions that come and go, and which identity is refused."""

from __future__ import annotations

import pytest

from walbridge.producer.guards.partitions import PartitionWatch
from walbridge.producer.postgres.facts import Partition
from walbridge.schemas.errors import OperatorError

KEY = frozenset({"id", "day"})
ROOT = Partition(1, 1, "public.p", True, "d", KEY)


def leaf(relation_id: int, *, born: bool = True, identity: str = "d", key: frozenset[str] = KEY) -> Partition:
    return Partition(1, relation_id, f"public.p{relation_id}", born, identity, key)


def test_first_look_and_new_empty_partitions_are_told_nothing_of() -> None:
    watch = PartitionWatch()
    assert watch.look([ROOT, leaf(2, born=False)]) == []
    assert watch.look([ROOT, leaf(2, born=False), leaf(3)]) == []


def test_partition_that_left_and_one_that_came_with_rows_are_told_once() -> None:
    watch = PartitionWatch()
    watch.look([ROOT, leaf(2), leaf(3)])

    told = [what for what, _ in watch.look([ROOT, leaf(3), leaf(4, born=False)])]

    assert [words.split(":")[0] for words in told] == [
        "partition public.p2 left public.p",
        "partition public.p4 was attached to public.p",
    ]
    assert watch.look([ROOT, leaf(3), leaf(4, born=False)]) == []


def test_root_that_is_gone_says_nothing_of_its_partitions() -> None:
    watch = PartitionWatch()
    watch.look([ROOT, leaf(2)])
    assert watch.look([]) == []


def root(identity: str = "d", key: frozenset[str] = KEY) -> Partition:
    return Partition(1, 1, "public.p", True, identity, key)


NO_KEY: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("above", "other", "remedy"),
    [
        (ROOT, leaf(2, identity="i", key=frozenset({"id"})), "ALTER TABLE public.p2 REPLICA IDENTITY DEFAULT;"),
        (ROOT, leaf(2, key=frozenset({"id"})), "ALTER TABLE public.p2 REPLICA IDENTITY FULL;"),
        (root("f", NO_KEY), leaf(2), "ALTER TABLE public.p2 REPLICA IDENTITY FULL;"),
        (root("f"), leaf(2), "ALTER TABLE public.p2 REPLICA IDENTITY FULL;"),
        (root("f"), leaf(2, identity="i", key=KEY | {"v"}), "ALTER TABLE public.p2 REPLICA IDENTITY FULL;"),
        (root("d", NO_KEY), leaf(2), "ALTER TABLE public.p ADD PRIMARY KEY (...);"),
        (root("n", NO_KEY), leaf(2, identity="f"), "ALTER TABLE public.p REPLICA IDENTITY FULL;"),
    ],
)
def test_identity_that_is_not_what_the_root_says_is_refused(above: Partition, other: Partition, remedy: str) -> None:
    """I5, I6."""
    with pytest.raises(OperatorError, match=r"partition public.p2 has another replica identity") as refusal:
        PartitionWatch().look([above, other])
    assert remedy in refusal.value.remedy


@pytest.mark.parametrize(
    ("above", "other"),
    [
        (ROOT, leaf(2, identity="f")),
        (ROOT, leaf(2, identity="n")),
        (ROOT, leaf(2, key=KEY | {"v"})),
        (root("n"), leaf(2)),
        (root("f"), leaf(2, identity="f")),
        (root("f"), leaf(2, identity="n")),
        (root("f", NO_KEY), leaf(2, key=NO_KEY)),
        (root("d", NO_KEY), leaf(2, key=NO_KEY)),
    ],
)
def test_identity_that_holds_the_roots_key_or_takes_no_update_is_fine(above: Partition, other: Partition) -> None:
    PartitionWatch().look([above, other])
