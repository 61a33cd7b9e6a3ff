"""Tables whose rows may have changed without a word in the stream: what tells so, and what does not."""
