"""Values in their types' binary format: the text that Postgres prints of them, and Avro bytes."""
