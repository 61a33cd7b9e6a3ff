"""The pure rules of copies beside the stream: states, windows, visibility. No I/O.

The copies themselves are made in ``session/copies/table_copies.py``, the first copy of a pipeline in ``first_copy.py``.
"""
