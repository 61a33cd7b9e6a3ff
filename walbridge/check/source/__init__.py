"""The source: its server, the role, the publication and its tables, the slot, and what a session would find."""
