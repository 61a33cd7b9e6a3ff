"""Older rows that may hold values which were never sent, by what the catalogue says of columns and their types."""
