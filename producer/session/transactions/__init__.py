"""The transaction that is open, and those that came before their commit: kept, replayed, each published once."""
