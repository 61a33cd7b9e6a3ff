"""Rows to commits: one plan on one table, exactly once."""
