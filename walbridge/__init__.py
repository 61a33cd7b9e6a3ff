"""The operator's command, and real servers for demo and tests."""
