"""The table format: the only package that names Delta."""
