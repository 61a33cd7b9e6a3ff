"""Kafka to Delta tables: reads the cuts, applies plans, publishes states that equal the source at one LSN."""
