"""Checks of settings that types and limits cannot say."""
