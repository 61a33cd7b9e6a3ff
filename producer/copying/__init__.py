"""What copies of tables beside the stream rest on, as pure rules: states, windows, visibility. No I/O.

The copies themselves are made in ``session/copies/table_copies.py``, the first copy of a pipeline in ``copy.py``.
"""
