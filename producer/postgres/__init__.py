"""Everything that speaks to Postgres; the only importer of psycopg."""
