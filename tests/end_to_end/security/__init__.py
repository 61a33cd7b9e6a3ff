"""A package, so that its servers are stopped behind its last test."""
