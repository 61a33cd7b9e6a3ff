"""The replication protocol as pure functions: bytes in, values out; no socket, no clock."""
