"""Checks of settings that types and limits cannot express."""
