"""The table ``_cuts`` and what stands beside it: written by one job, read by anybody."""
