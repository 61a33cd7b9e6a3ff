"""Topics of the pipeline beside those of tables: what is read there, and what the producer is asked for."""
