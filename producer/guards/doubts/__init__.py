"""Tables whose rows may have changed without an event in the stream, and how that is noticed."""
