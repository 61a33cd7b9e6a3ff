"""Tuples to Avro records: one generated function for each relation version."""
