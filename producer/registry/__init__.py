"""Everything that speaks to a schema registry."""
