"""The thread that reads tables while the producer streams: what it is asked, and what it answers."""
