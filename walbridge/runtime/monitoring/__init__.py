"""What a running program shows: its health, its metrics, and an HTTP endpoint for both."""
