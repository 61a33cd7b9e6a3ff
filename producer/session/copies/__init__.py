"""Copies of tables beside the stream: what is asked, what is found, and each step into a topic."""
