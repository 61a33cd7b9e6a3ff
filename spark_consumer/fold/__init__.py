"""Records to rows: decoded with the schema that wrote them, at most one row a key."""
