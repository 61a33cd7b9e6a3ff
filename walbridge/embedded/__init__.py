"""Real Postgres and Kafka servers, Java and jars, for the demo and the tests.

Nothing here is used by the producer or the Spark job: those connect to what they are told.
"""
