"""The contract between the producer, the Spark job and anybody who reads the topics.

Positions, types, Avro schemas and codec, metadata, cuts, progress, names, settings, errors.
Imports none of the other packages.
"""
