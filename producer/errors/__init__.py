"""Errors that several modules raise, or the check as well: a module for what each is about."""
