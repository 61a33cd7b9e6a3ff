"""The tables that are followed: relation versions, their columns, their topics."""
