"""What ``walbridge materialize`` would meet at its start, beside its lake."""
