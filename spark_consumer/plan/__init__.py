"""Cuts to plans, and the rows of ``_cuts`` that say what was planned and published."""
