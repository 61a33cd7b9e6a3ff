"""Which partitions are refused below a published root."""

from __future__ import annotations

from dataclasses import replace

import pytest

from walbridge.producer.guards.unfit.partitions import identity_faults, unsent_faults
from walbridge.producer.postgres.facts import Partition

KEY = frozenset({"id", "day"})
ROOT = Partition(1, 1, "public.p", "d", KEY)


def leaf(relation_id: int, *, identity: str = "d", key: frozenset[str] = KEY) -> Partition:
    return Partition(1, relation_id, f"public.p{relation_id}", identity, key)


def root(identity: str = "d", key: frozenset[str] = KEY) -> Partition:
    return Partition(1, 1, "public.p", identity, key)


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
def test_identity_that_is_not_what_the_root_says_is_its_fault(above: Partition, other: Partition, remedy: str) -> None:
    """I5, I6."""
    ((root_id, fault),) = identity_faults([above, other])

    assert root_id == above.relation_id
    assert fault.what.startswith("partition public.p2 has another replica identity")
    assert remedy in fault.remedy


def test_key_of_a_root_that_not_all_partitions_have_yet_is_its_fault() -> None:
    """I8: the server tells it as the key of rows that may be equal in it."""
    ((root_id, fault),) = identity_faults([replace(ROOT, has_invalid_key=True), leaf(2, key=NO_KEY)])

    assert root_id == ROOT.relation_id
    assert fault.what.startswith("the primary key of public.p is not one of all its partitions yet")


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
    assert [*identity_faults([above, other])] == []


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        ("unlogged", "ALTER TABLE public.p2 SET LOGGED; or ALTER TABLE public.p DETACH PARTITION public.p2;"),
        ("a foreign table", "ALTER TABLE public.p DETACH PARTITION public.p2;"),
    ],
)
def test_partition_whose_changes_are_never_sent_is_refused(kind: str, remedy: str) -> None:
    """I8: its rows would be copied, and stay as they are for ever."""
    (refusal,) = unsent_faults([ROOT, leaf(3), replace(leaf(2), never_sent=kind)])
    assert f"partition public.p2 of public.p is {kind}" in refusal.what
    assert refusal.remedy == remedy
