"""Reads Avro's bytes of many records at once: each step is one pass of numpy over all of them.

In: the bytes of many records, and for each record where its next value begins. Out: arrays with one value a record, and
where the value after it begins. A number's groups of seven bits are joined by three shifts of a word of eight bytes.

Source: Avro 1.12 specification, "Binary Encoding".
"""

import numpy as np
import numpy.typing as npt

from walbridge.spark_consumer.kafka.many.spooled_records import Words, words_of

Places = npt.NDArray[np.int64]
"""Where in the bytes something begins, one place a record."""
Numbers = npt.NDArray[np.int64]

_CONTINUED = np.uint64(0x8080808080808080)
_GROUPS = np.uint64(0x7F7F7F7F7F7F7F7F)
_ONE = np.uint64(1)


class NotPlain(Exception):
    """The records hold what is not decoded by columns: whoever asked has them decoded one by one."""


class AvroBytes:
    """The bytes of many records. A place that lies outside raises NotPlain when it is read."""

    def __init__(self, data: npt.NDArray[np.uint8]) -> None:
        """``data``: with ``spooled_records.PADDING`` at its end, since a word is read wherever a value may begin."""
        self.data = data
        self._words = words_of(data)

    def byte(self, at: Places) -> npt.NDArray[np.uint8]:
        """The byte at each place."""
        try:
            found: npt.NDArray[np.uint8] = self.data[at]
        except IndexError:
            raise NotPlain from None
        return found

    def word(self, at: Places) -> Words:
        """The eight bytes from each place on, the first one lowest."""
        try:
            found: Words = self._words[at]
        except IndexError:
            raise NotPlain from None
        return found

    def long(self, at: Places) -> tuple[Numbers, Places]:
        """The number at each place, and the place behind it."""
        first = self.byte(at)
        if not (first & 0x80).any():
            return _unzigzag(first.astype(np.uint64)), at + 1
        word = self.word(at)
        ends = ~word & _CONTINUED
        bits = ends ^ (ends - _ONE)  # up to and with the bit that ends the number; all where none does
        value = _joined_groups(word & bits & _GROUPS)
        size = (np.bitwise_count(bits) >> 3).astype(np.int64)
        if (longer := ends == 0).any():
            rows = np.flatnonzero(longer)
            value[rows], size[rows] = self._long_ends(at[rows], value[rows])
        return _unzigzag(value), at + size

    def _long_ends(self, at: Places, value: Words) -> tuple[Words, Numbers]:
        """Numbers of nine or ten bytes, of which the first eight are read."""
        ninth, tenth = self.byte(at + 8).astype(np.uint64), self.byte(at + 9).astype(np.uint64)
        has_tenth = ninth >= 0x80
        if (tenth[has_tenth] > 1).any():
            raise NotPlain
        value = value | ((ninth & np.uint64(0x7F)) << np.uint64(56))
        return value | np.where(has_tenth, tenth << np.uint64(63), np.uint64(0)), 9 + has_tenth.astype(np.int64)

    def is_present(self, at: Places, null_branch: int) -> npt.NDArray[np.bool_]:
        """Of a union of null and one other type: whether the other one follows."""
        branch = self.byte(at)
        if (branch & 0xFD).any():
            raise NotPlain
        present: npt.NDArray[np.bool_] = branch != 2 * null_branch
        return present

    def span(self, at: Places) -> tuple[Places, Places]:
        """Where the string or bytes at each place begin, and where they end."""
        size, start = self.long(at)
        if size.size and (size.min() < 0 or size.max() >= len(self.data)):
            raise NotPlain
        return start, start + size


def _joined_groups(word: Words) -> Words:
    """Groups of seven bits in bytes, without gaps."""
    word = (word & np.uint64(0x007F007F007F007F)) | ((word & np.uint64(0x7F007F007F007F00)) >> _ONE)
    word = (word & np.uint64(0x00003FFF00003FFF)) | ((word & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
    joined: Words = (word & np.uint64(0x0FFFFFFF)) | ((word & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))
    return joined


def _unzigzag(value: Words) -> Numbers:
    return ((value >> _ONE) ^ (~(value & _ONE) + _ONE)).view(np.int64)
