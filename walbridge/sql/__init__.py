"""``walbridge sql``: one query over all tables of the lake at one LSN, with DuckDB. Needs the extra ``sql``."""

from walbridge.sql.verb import sql

__all__ = ["sql"]
