"""What plans leave behind goes: files and log entries that no kept row of ``_cuts`` needs, marked rows, small files."""
