"""The replication slot: made, inspected, dropped, held by one producer at a time, and the WAL that it keeps."""
