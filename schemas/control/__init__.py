"""The records of the control topics: metadata, cuts, progress, requests; each with its Avro schema beside it."""
