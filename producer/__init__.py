"""Postgres to Kafka: one slot, one ordered stream, one thread."""
