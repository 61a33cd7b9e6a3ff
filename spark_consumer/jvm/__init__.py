"""Spark's session and the JVM that it lives in: its start, its executors, its progress and its end."""
