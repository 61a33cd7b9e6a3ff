"""Tables that cannot be followed as they are: refused before a copy, doubted at the start of a session."""
