"""One table of both sides compared: by buckets, by rows, and over rounds. Pure: no database, no lake, no clock."""
