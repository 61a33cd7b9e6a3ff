"""``walbridge sql``: one query over all tables of the lake at one LSN, with DuckDB. Needs the extra ``sql``."""

import duckdb  # noqa: F401  # first, for where it is missing: what else is then missing comes with other extras, too

from walbridge.sql.verb import sql

__all__ = ["sql"]
