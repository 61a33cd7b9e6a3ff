"""Copies that are written beside the plans, and how they get into the lake."""
