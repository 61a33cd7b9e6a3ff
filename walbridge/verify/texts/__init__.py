"""The canonical text of each value, by SQL and from Arrow: two modules that share no code."""
