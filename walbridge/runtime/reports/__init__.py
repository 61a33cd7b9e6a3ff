"""What a program says of its end, to its peer, on its machine and on stderr; and how others know whether it lives."""
