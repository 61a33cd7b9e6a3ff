"""Removes what plans leave behind: files and log entries that no kept row of ``_cuts`` needs, marked rows, small
files."""
