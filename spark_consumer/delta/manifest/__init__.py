"""The table ``_cuts`` and the files beside it: written by one job, read by all programs."""
