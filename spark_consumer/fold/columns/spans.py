"""Pieces of bytes as an Arrow array, which copies them."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Places = npt.NDArray[np.int64]


def span_array(data: npt.NDArray[np.uint8], starts: Places, ends: Places) -> pa.Array:
    """The bytes between these places, which ascend."""
    # What lies between the pieces are values, too, of an array from which Arrow copies every second one.
    offsets = np.zeros(2 * len(starts) + 1, np.int32)
    offsets[1::2], offsets[2::2] = starts, ends
    all_pieces = pa.Array.from_buffers(pa.binary(), 2 * len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return all_pieces.take(pa.array(np.arange(1, len(offsets), 2, dtype=np.int32)))


def with_nulls(values: pa.Array, present: npt.NDArray[np.bool_]) -> pa.Array:
    """The values at the places where one is present, null at all others."""
    places = np.cumsum(present) - 1
    return values.take(pa.array(places, mask=~present))
