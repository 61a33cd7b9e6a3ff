"""Tests mirror the packages; servers are started once a run, by the first test that asks."""
