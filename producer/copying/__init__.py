"""Copies of a table while the stream runs: what a chunk of rows is worth, by the values that Postgres gives. No I/O."""
