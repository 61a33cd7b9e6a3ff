"""What a program shows of itself while it runs: whether it makes progress, its figures, and both over HTTP."""
