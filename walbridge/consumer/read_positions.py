"""How far each partition of some topics was read.

In: the offsets that reading begins at, the records that were returned, and the ends that were reached. Out: the offset
to continue at, by partition. Transaction markers behind a partition's last record count as read once its end was
reached, so a reader that goes on there does not look at them again.
"""

from collections.abc import Collection, Iterable, Mapping

from walbridge.schemas.control.cut import PartitionId


class ReadPositions:
    """Of the partitions that are read now."""

    def __init__(self) -> None:
        self._read_to: dict[PartitionId, int] = {}
        """The offset behind the last record that was returned."""
        self._end_offsets: dict[PartitionId, int] = {}
        """The offset of a partition's end when it was reached."""
        self._at_end: set[PartitionId] = set()
        """Partitions whose end was reached, and that have brought no record since."""

    @property
    def offsets(self) -> dict[PartitionId, int]:
        """The next offset to read."""
        return {
            partition: max(offset, self._end_offsets.get(partition, 0)) for partition, offset in self._read_to.items()
        }

    @property
    def are_at_end(self) -> bool:
        """Whether every partition was read to its end."""
        return self._at_end >= self._read_to.keys()

    def begin(self, offsets: Mapping[PartitionId, int]) -> None:
        """These partitions are read, too, from these offsets on."""
        self._read_to |= offsets

    def behind_record(self, partition: PartitionId) -> int:
        """The offset behind the last record of it that was returned, or that reading began at."""
        return self._read_to.get(partition, 0)

    def on_record(self, partition: PartitionId, offset: int) -> None:
        """The record at ``offset`` was read."""
        self._read_to[partition] = offset + 1
        self._at_end.discard(partition)

    def on_end(self, partition: PartitionId, end_offset: int) -> None:
        """There is no record before ``end_offset`` that was not read."""
        self._end_offsets[partition] = end_offset
        self._at_end.add(partition)

    def of_topics(self, topics: Collection[str]) -> list[PartitionId]:
        """The partitions of these topics that are read."""
        return [partition for partition in self._read_to if partition[0] in topics]

    def reached_ends(self, partitions: Iterable[PartitionId]) -> bool:
        """Whether all of these were read to their ends."""
        return self._at_end.issuperset(partitions)

    def end(self, partitions: Iterable[PartitionId]) -> None:
        """These partitions are read no more."""
        for partition in partitions:
            del self._read_to[partition]
            self._at_end.discard(partition)
