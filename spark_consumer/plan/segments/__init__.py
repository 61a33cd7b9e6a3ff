"""One table's events in a plan, divided at its barriers."""
